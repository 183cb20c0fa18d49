"""Thread counts of TensorFlow sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lightbox.engines import hardware
from lightbox.model_server import configuration
from lightbox.model_server.flags import parse
from lightbox.tfs_wire.messages import config_pb2


def threads(*flags: str) -> int:
    """Return the threads per operation that the flags set."""
    config = config_pb2.ConfigProto.FromString(configuration.session_config(parse(list(flags))))
    return int(config.intra_op_parallelism_threads)


@pytest.fixture(autouse=True)
def a_machine_of_64_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))


def test_the_quota_bounds_them_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(configuration, "cores", lambda: 2)
    assert threads() == 2
    assert threads("--tensorflow_intra_op_parallelism=8") == 8
    assert threads("--tensorflow_session_parallelism=9") == 9
    (tmp_path / "session").write_text("intra_op_parallelism_threads: 5")
    assert threads(f"--tensorflow_session_config_file={tmp_path}/session") == 5


def test_without_a_quota_tensorflow_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "cores", lambda: 64)
    assert threads() == 0


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, 64),
        ({"quota": "300000\n", "period": "100000\n"}, 3),
        ({"quota": "-1\n", "period": "100000\n"}, 64),
        ({"quota": "5000\n", "period": "100000\n"}, 1),
        ({}, 64),
    ],
)
def test_the_quota_of_either_version_of_cgroups(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], count: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for variable, name in (("_QUOTA", "cpu.max"), ("_QUOTA_V1", "quota"), ("_PERIOD_V1", "period")):
        monkeypatch.setattr(hardware, variable, tmp_path / name)
    assert hardware.cores() == count
