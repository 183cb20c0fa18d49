"""A session of ONNX Runtime for one of the networks that benchmark/networks.py wrote."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

NETWORKS = Path(__file__).resolve().parents[3] / "build" / "benchmark_models" / "networks"


def session(name: str, threads: int) -> onnxruntime.InferenceSession:
    """Return a session with so many threads inside an operation, 0 for its own choice."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(NETWORKS / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
