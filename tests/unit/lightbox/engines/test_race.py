"""The engines that open a model are timed, each in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.engines import disk_cache, race
from lightbox.engines.engine import named
from lightbox.engines.hardware import Hardware
from lightbox.engines.race import fastest, known
from lightbox.tfs_wire.status import StatusError
from support.onnx_models import write_dense


def test_an_engine_is_timed(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    engine, choice = fastest(str(tmp_path), [named("openvino")], Hardware(1, 1))
    assert engine.name == choice.engine == "openvino"
    assert choice.reason.endswith(" ms of CPU per input")


def test_what_no_engine_reads_is_reported_with_each_reason(tmp_path: Path) -> None:
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


def test_what_was_found_out_is_remembered_for_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call starts no process and returns the stored result."""
    write_dense(tmp_path / "1" / "model.onnx")
    hardware, able = Hardware(1, 1, cache_folder=str(tmp_path / "cache")), [named("openvino")]
    assert not known(str(tmp_path / "1"), able, hardware)
    first = fastest(str(tmp_path / "1"), able, hardware)
    assert known(str(tmp_path / "1"), able, hardware)
    assert fastest(str(tmp_path / "1"), able, hardware) == first
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "model.onnx").write_bytes((tmp_path / "1" / "model.onnx").read_bytes() + b"\0")
    assert not known(str(tmp_path / "2"), able, hardware)
    with monkeypatch.context() as another:
        another.setattr(race, "processor", lambda: "another")
        assert not known(str(tmp_path / "1"), able, hardware)
    for file in (tmp_path / "cache").iterdir():
        disk_cache.write(file, {"milliseconds": 1.0, "of_another_release": True})
        assert not known(str(tmp_path / "1"), able, hardware)
        file.write_text("damaged")
    assert not known(str(tmp_path / "1"), able, hardware)


def test_a_refusal_is_not_remembered(tmp_path: Path) -> None:
    """Its reason may lie outside the model's files; an earlier release has kept refusals."""
    (tmp_path / "model.onnx").write_bytes(b"garbage")
    hardware, able = Hardware(1, 1, cache_folder=str(tmp_path / "cache")), [named("openvino")]
    with pytest.raises(StatusError, match="no engine reads the model in"):
        fastest(str(tmp_path), able, hardware)
    assert not known(str(tmp_path), able, hardware)
    write_dense(tmp_path / "model.onnx")
    fastest(str(tmp_path), able, hardware)
    (file,) = (tmp_path / "cache").iterdir()
    disk_cache.write(file, {"milliseconds": None, "refused": "half copied"})
    assert fastest(str(tmp_path), able, hardware)[0] is able[0]
