"""Thread counts of TensorFlow sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lightbox.model_runtime.server import session_configuration as configuration
from lightbox.model_runtime.server.flags import parse
from lightbox.model_runtime.wire.messages import config_pb2


def threads(*flags: str) -> int:
    """Return the threads per operation that the flags set."""
    config = config_pb2.ConfigProto.FromString(configuration.session_config(parse(list(flags))))
    return int(config.intra_op_parallelism_threads)


@pytest.fixture(autouse=True)
def a_machine_of_64_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))


def test_the_quota_bounds_them_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(configuration, "available_cores", lambda: 2)
    assert threads() == 2
    assert threads("--tensorflow_intra_op_parallelism=8") == 8
    assert threads("--tensorflow_session_parallelism=9") == 9
    (tmp_path / "session").write_text("intra_op_parallelism_threads: 5")
    assert threads(f"--tensorflow_session_config_file={tmp_path}/session") == 5


def test_without_a_quota_tensorflow_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "available_cores", lambda: 64)
    assert threads() == 0
