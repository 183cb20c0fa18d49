"""The engines that open a model are timed, each in a separate process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from lightbox.model_runtime.engines import disk_cache, race
from lightbox.model_runtime.engines.comparison import OF_FLOAT16, difference
from lightbox.model_runtime.engines.engine import named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.race import fastest, known
from lightbox.model_runtime.wire.status import StatusError
from support.onnx_models import write, write_dense
from support.parameters import each


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


def test_cached_times_need_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root file system may be read-only."""
    write_dense(tmp_path / "1" / "model.onnx")
    hardware, able = Hardware(1, 1, cache_folder=str(tmp_path / "cache")), [named("openvino")]
    first = fastest(str(tmp_path / "1"), able, hardware)
    monkeypatch.setattr(race, "TemporaryDirectory", None)
    assert fastest(str(tmp_path / "1"), able, hardware) == first


@each(
    ("dtype", "casts_to", "expected"),
    [("FLOAT", None, False), ("FLOAT", "FLOAT16", True), ("FLOAT", "DOUBLE", False), ("FLOAT16", None, True)],
)
def test_float16_in_a_file_widens_the_tolerance(
    dtype: str, casts_to: str | None, expected: bool, tmp_path: Path
) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["z"])]
    if casts_to:
        nodes = [helper.make_node("Cast", ["x"], ["small"], to=getattr(TensorProto, casts_to))]
        nodes.append(helper.make_node("Cast", ["small"], ["z"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Identity", ["z"], ["y"]))
    write(tmp_path / "model.onnx", nodes, {"x": (dtype, ["n", 4])}, {"y": (dtype, ["n", 4])})
    assert race._computes_in_float16(str(tmp_path)) is expected
    rounded = np.array([1.0, 0.5], np.float32), np.array([1.001, 0.5], np.float32)
    assert difference({"y": rounded}, OF_FLOAT16) is None
    assert difference({"y": rounded}) == "output 'y' differs by up to 0.001"
