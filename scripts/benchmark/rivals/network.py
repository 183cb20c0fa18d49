"""Shared code of the other servers: an ONNX Runtime session for a network, and its preprocessing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

NETWORKS = Path(__file__).resolve().parents[3] / "build" / "benchmark_models" / "networks"
SIDE = 224


def session(name: str, threads: int) -> onnxruntime.InferenceSession:
    """Return a session for a network of benchmark/networks.py, with this many intra-op threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(NETWORKS / f"{name}.onnx", options, providers=["CPUExecutionProvider"])


def threads_of(workers: int) -> int:
    """Return the number of threads for each of this many workers, which share the cores."""
    return max(1, len(os.sched_getaffinity(0)) // workers)


def probabilities(network: onnxruntime.InferenceSession, image: Image.Image) -> np.ndarray:
    """Return the probabilities of an image, float32 [1, 1000]."""
    pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE)))
    found: np.ndarray = network.run(None, {"pixels": pixels[None]})[0]
    return found
