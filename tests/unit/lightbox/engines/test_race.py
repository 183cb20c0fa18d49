"""The engines that open a model are timed, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.engines.engine import named
from lightbox.engines.hardware import Hardware
from lightbox.engines.race import fastest
from support.onnx_models import write_dense
from tfs_wire.status import StatusError


def test_an_engine_is_timed(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    engine, choice = fastest(str(tmp_path), [named("openvino")], Hardware(1, 1))
    assert engine.name == choice.engine == "openvino"
    assert choice.reason.endswith(" ms of CPU for an input")


def test_what_no_engine_reads_is_told_with_each_reason(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(StatusError, match=r"no engine reads the model in .*: openvino: .*model.onnx cannot be read"):
        fastest(str(tmp_path), [named("openvino")], Hardware(1, 1))


def test_a_process_that_ends_is_a_reason(tmp_path: Path) -> None:
    class Missing(type(named("openvino"))):  # type: ignore[misc]
        name = "missing"

    write_dense(tmp_path / "model.onnx")
    with pytest.raises(StatusError, match=r"missing: its process failed: ModuleNotFoundError: .*missing"):
        fastest(str(tmp_path), [Missing()], Hardware(1, 1))
    engine, choice = fastest(str(tmp_path), [Missing(), named("openvino")], Hardware(1, 1))
    assert engine.name == "openvino"
    assert "missing: its process failed" in choice.reason
