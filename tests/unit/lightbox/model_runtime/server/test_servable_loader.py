"""Batching of calls by model, and the time of a load."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition

import numpy as np
import pytest
from onnx import helper

from lightbox.model_runtime.deadline import check_deadline
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.server.batching.batch_scheduler import BatchScheduler
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.server.batching.session_batching import BatchingSession
from lightbox.model_runtime.server.monitoring import Metrics
from lightbox.model_runtime.server.servable import Servable
from lightbox.model_runtime.server.servable_loader import Loader
from lightbox.model_runtime.wire.status import StatusError
from support.onnx_models import write
from support.patience import PATIENCE


def loaded(folder: Path, rows: int | str, *allowed: int) -> Runner:
    """Load a model whose first dimension is ``rows``; a batch waits for two calls."""
    nodes, shape = [helper.make_node("Relu", ["x"], ["y"])], ("FLOAT", [rows, 2])
    write(folder / "1" / "model.onnx", nodes, {"x": shape}, {"y": shape})
    options = BatchingOptions(max_batch_size=2, timeout_seconds=PATIENCE, allowed_batch_sizes=allowed)
    opener = Opener("openvino", ("serve",), b"", Hardware(1, 1))
    loader = Loader(opener.open, Metrics(), batching=lambda path: options, scheduler=BatchScheduler(1))
    return loader.load(Servable("m", 1, str(folder / "1"), Condition()))


def test_calls_of_a_file_with_a_fixed_first_dimension_are_answered_alone(tmp_path: Path) -> None:
    session = loaded(tmp_path, 1)
    rows = [np.array([[value, -value]], np.float32) for value in (1, 2)]
    with ThreadPoolExecutor(2) as callers:
        found = list(callers.map(lambda row: session.run({"x": row}, ["y"])[0].tolist(), rows))
    assert found == [[[1, 0]], [[2, 0]]]


@pytest.mark.parametrize(("rows", "allowed"), [("n", ()), (2, (2,))])
def test_calls_of_others_are_joined(tmp_path: Path, rows: int | str, allowed: tuple[int, ...]) -> None:
    assert isinstance(loaded(tmp_path, rows, *allowed), BatchingSession)


@pytest.mark.extended
def test_a_warm_up_ends_with_the_time_of_its_load(tmp_path: Path) -> None:
    shape = ("FLOAT", [1])
    write(tmp_path / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, {"y": shape})
    opener = Opener("openvino", ("serve",), b"", Hardware(1, 1))
    servable = Servable("m", 1, str(tmp_path), Condition())

    def warm_up(*_: object) -> None:
        while True:
            check_deadline()

    with pytest.raises(StatusError, match="DEADLINE_EXCEEDED: the load took more than "):
        Loader(opener.open, Metrics(), warm_up=warm_up, seconds=10.0).load(servable)
