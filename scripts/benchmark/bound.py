"""The bound: a classification in one thread of one process, without a server.

Decoder, resize and engine are the same as in a stack; nothing is copied, checked or logged. A stack can use less CPU
time than this only by doing less work.
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

WARM, IMAGES = 50, 300
Classify = Callable[[bytes], npt.NDArray[np.float32]]


def classifier(folder: Path, scaling: Scaling) -> Classify:
    """Return a function from a JPEG file to the output of a 224x224 classifier, version 1: bicubic, stretched."""
    core, resize = openvino.Core(), NativeResize()
    model = core.read_model(folder / "1")
    model.reshape([1, 224, 224, 3])  # known shapes save a tenth of the time
    properties = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", properties).create_infer_request()
    tensor, output = request.get_input_tensor(), request.get_output_tensor()
    into = tensor.data[0]
    table = None if scaling is Scaling.NONE else table_of(PixelValues(scaling), 3, into.dtype)

    def classify(file: bytes) -> npt.NDArray[np.float32]:
        resize.resize(Rgbx(simplejpeg.decode_jpeg(file, "RGBX")), Resampling.BICUBIC, into, table=table)
        request.start_async()
        request.wait()
        return np.array(output.data)

    return classify


def milliseconds(image: bytes, processes: int) -> float:
    """Return the CPU time per image: the mean over this many concurrent processes with one thread each."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("forkserver")) as pool:
        return statistics.fmean(pool.map(measured, [image] * processes))


def measured(image: bytes) -> float:
    """Classify an image many times and return the CPU time per image in milliseconds."""
    classify = classifier(models.classifiers() / "mobilenet_v2", Scaling.TF)
    for _ in range(WARM):
        classify(image)
    cpu = time.process_time()
    for _ in range(IMAGES):
        classify(image)
    return (time.process_time() - cpu) / IMAGES * 1000
