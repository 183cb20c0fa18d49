"""A server with the recorded models, one for all contract tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contract.golden import replay
from support.model_server import ModelServer, golden_server
from support.models import export
from support.patience import PATIENCE


@pytest.fixture(scope="session")
def recorded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """Run the embedded server with the recorded server's models and flags. Tests leave its state unchanged."""
    yield from golden_server(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def patient_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits of the replay script: 60 s for each call, 10 s for background work after it."""
    call_grpc = replay.call_grpc

    def call(target: str, case: dict[str, Any], models: str = "/models") -> dict[str, Any]:
        return dict(call_grpc(target, {"timeout_s": PATIENCE} | case, models))

    monkeypatch.setattr(replay, "call_grpc", call)
    monkeypatch.setattr(replay.call_rest, "__defaults__", ("/models", PATIENCE))
    slow = SimpleNamespace(time=lambda: time.monotonic() * 10 / PATIENCE, sleep=time.sleep)
    monkeypatch.setattr(replay, "time", slow)


@pytest.fixture(scope="session")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the base path of a model with one convolution, whose kernel aborts on a wrong rank."""

    def make() -> Any:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 1], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            return {"y": tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, tf.ones([2, 2, 1, 3]), 1, "SAME"), tf.ones([3])))}

        return serve

    folder = tmp_path_factory.mktemp("convolution")
    export("convolution_2_by_2", make, folder / "1", "tests/contract/conftest.py")
    return folder
