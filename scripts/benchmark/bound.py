"""The bound: the work of a classification in one thread of one process, with no server around it.

Decoder, resize and engine are those of a stack; nothing is copied, checked or logged. No stack can take less processor
time than this without doing less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

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
    """Return what makes probabilities, float32 [1, 1000], of a JPEG file: bicubic, stretched, -1..1."""
    properties = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(models.classifiers_and_detector() / "mobilenet_v2" / "1", "CPU", properties)
    request, resize = model.create_infer_request(), NativeResize()
    request.set_input_tensor(openvino.Tensor(np.dtype(np.float32), (1, 224, 224, 3)))
    into, out = request.get_input_tensor().data[0], request.get_output_tensor()
    table = table_of(PixelValues(Scaling.TF), 3, into.dtype)

    def answer(file: bytes) -> npt.NDArray[np.float32]:
        resize.resize(Rgbx(simplejpeg.decode_jpeg(file, "RGBX")), Resampling.BICUBIC, into, table=table)
        request.start_async()
        request.wait()
        return np.array(out.data)

    return answer


def milliseconds(image: bytes, processes: int) -> float:
    """Return the processor time of an answer: the mean of so many processes at once, each with one thread."""
    environ = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "benchmark.bound"]
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            )
            for _ in range(processes)
        ]
        for process in running:
            assert process.stdin is not None, "it is a pipe"
            process.stdin.write(image)
            process.stdin.close()
        return statistics.fmean(float(process.stdout.read()) for process in running if process.stdout)


def main() -> None:
    """Read an image from stdin, answer it many times, and print the processor time of an answer, in milliseconds."""
    image, answer = sys.stdin.buffer.read(), mobilenet_v2()
    for _ in range(WARM):
        answer(image)
    cpu = time.process_time()
    for _ in range(ANSWERS):
        answer(image)
    print((time.process_time() - cpu) / ANSWERS * 1000)


if __name__ == "__main__":
    main()
