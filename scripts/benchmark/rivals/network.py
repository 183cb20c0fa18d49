"""Shared code of the other servers: an ONNX Runtime session for the network, and its preprocessing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

from benchmark.rivals import WORKERS

OWN = Path(__file__).resolve().parents[3] / "build" / "benchmark_models" / "networks" / "mobilenet_v2.onnx"
VARIABLE = "BENCHMARK_NETWORK"
"""Names another ONNX file, whose input and output have the same shapes and types."""
SIDE = 224
SHARE = max(1, len(os.sched_getaffinity(0)) // WORKERS)
"""Threads of each worker where the workers share the cores."""


def session(threads: int) -> onnxruntime.InferenceSession:
    """Return a session for a network of benchmark/networks.py, with this many intra-op threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    file = os.environ.get(VARIABLE) or OWN
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def probabilities(network: onnxruntime.InferenceSession, image: Image.Image) -> np.ndarray:
    """Return the probabilities of an image, float32 [1, 1000]."""
    pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE)))
    found: np.ndarray = network.run(None, {network.get_inputs()[0].name: pixels[None]})[0]
    return found
