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
from typing import Any

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


def mobilenet_v2() -> Classify:
    """Return a function from a JPEG file to probabilities, float32 [1, 1000]."""
    return classifier(mobilenet_v2_folder(), Scaling.TF)


def mobilenet_v2_folder() -> Path:
    """Return the folder of the network that the bound is measured with."""
    return models.classifiers() / "mobilenet_v2"


def classifier(folder: Path, scaling: Scaling) -> Classify:
    """Return a function from a JPEG file to the output of a 224x224 classifier: bicubic, stretched."""
    model = compiled(folder, streams=1)
    image = openvino.Tensor(model.input().get_element_type(), openvino.Shape((1, 224, 224, 3)))
    prepare, infer, into = preparation(scaling, image.data.dtype), inference(model, image), image.data[0]

    def classify(file: bytes) -> npt.NDArray[np.float32]:
        prepare(file, into)
        return np.array(infer())

    return classify


def compiled(folder: Path, streams: int) -> openvino.CompiledModel:
    """Compile version 1 of a model for one image, and this many inferences at once, each on one core."""
    core = openvino.Core()
    model = core.read_model(folder / "1")
    model.reshape([1, 224, 224, 3])  # known shapes save a tenth of the time
    properties = {"INFERENCE_NUM_THREADS": streams, "NUM_STREAMS": streams, "INFERENCE_PRECISION_HINT": "f32"}
    return core.compile_model(model, "CPU", properties)


def inference(model: openvino.CompiledModel, image: openvino.Tensor) -> Callable[[], npt.NDArray[np.float32]]:
    """Return a function that runs the model on what ``image`` holds, and returns its only output."""
    request = model.create_infer_request()
    request.set_input_tensor(image)
    out = request.get_output_tensor()

    def infer() -> npt.NDArray[np.float32]:
        request.start_async()
        request.wait()
        output: npt.NDArray[np.float32] = out.data
        return output

    return infer


def preparation(scaling: Scaling, dtype: np.dtype[Any]) -> Callable[[bytes, npt.NDArray[Any]], None]:
    """Return a function that decodes a JPEG file into an image [height, width, 3] of ``dtype``."""
    resize = NativeResize()
    table = None if scaling is Scaling.NONE else table_of(PixelValues(scaling), 3, dtype)

    def prepare(file: bytes, into: npt.NDArray[Any]) -> None:
        resize.resize(Rgbx(simplejpeg.decode_jpeg(file, "RGBX")), Resampling.BICUBIC, into, table=table)

    return prepare


def milliseconds(image: bytes, processes: int) -> float:
    """Return the CPU time per image: the mean over this many concurrent processes with one thread each."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("forkserver")) as pool:
        return statistics.fmean(pool.map(measured, [image] * processes))


def measured(image: bytes) -> float:
    """Classify an image many times and return the CPU time per image in milliseconds."""
    classify = mobilenet_v2()
    for _ in range(WARM):
        classify(image)
    cpu = time.process_time()
    for _ in range(IMAGES):
        classify(image)
    return (time.process_time() - cpu) / IMAGES * 1000
