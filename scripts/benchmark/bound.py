"""The bound: the work of a classification in one thread of one process, with no server around it.

Decoder, resize and engine are those of a stack; nothing is copied, checked or logged. No stack can take less processor
time than this without doing less.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import openvino
import simplejpeg
from PIL.Image import Resampling

from benchmark import models
from lightbox.images.preparation import PixelValues, Scaling, table_of
from lightbox.images.resize import NativeResize, Rgbx

WARM, ANSWERS = 50, 300
Answers = Callable[[bytes], npt.NDArray[np.float32]]


def mobilenet_v2() -> Answers:
    """Return what makes probabilities, float32 [1, 1000], of a JPEG file."""
    return classifier(models.classifiers_and_detector() / "mobilenet_v2", Scaling.TF)


def classifier(folder: Path, scaling: Scaling) -> Answers:
    """Return what makes the output of a classifier of 224x224 pixels of a JPEG file: bicubic, stretched."""
    properties = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(folder / "1", "CPU", properties)
    request, resize = model.create_infer_request(), NativeResize()
    request.set_input_tensor(openvino.Tensor(model.input().get_element_type(), openvino.Shape((1, 224, 224, 3))))
    into, out = request.get_input_tensor().data[0], request.get_output_tensor()
    table = None if scaling is Scaling.NONE else table_of(PixelValues(scaling), 3, into.dtype)

    def answer(file: bytes) -> npt.NDArray[np.float32]:
        resize.resize(Rgbx(simplejpeg.decode_jpeg(file, "RGBX")), Resampling.BICUBIC, into, table=table)
        request.start_async()
        request.wait()
        return np.array(out.data)

    return answer


def milliseconds(image: bytes, processes: int) -> float:
    """Return the CPU time of an answer: the mean of this many processes at once, each with one thread."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("forkserver")) as pool:
        return statistics.fmean(pool.map(measured, [image] * processes))


def measured(image: bytes) -> float:
    """Answer an image many times, and return the processor time of an answer, in milliseconds."""
    answer = mobilenet_v2()
    for _ in range(WARM):
        answer(image)
    cpu = time.process_time()
    for _ in range(ANSWERS):
        answer(image)
    return (time.process_time() - cpu) / ANSWERS * 1000
