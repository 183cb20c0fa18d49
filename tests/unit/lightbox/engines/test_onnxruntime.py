"""ONNX Runtime: its results, its refusals, and the choice of ``auto`` between it and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from lightbox.engines.base import Array, Runner
from lightbox.engines.choice import Opener
from lightbox.engines.engine import Opened, named
from lightbox.engines.hardware import Hardware
from lightbox.tfs_wire.status import Code, StatusError
from support.onnx_models import write, write_dense
from support.parameters import few_of

RUNTIMES = ["onnxruntime", "openvino"]


def opened(folder: Path, engine: str) -> Opened:
    return Opener(engine, ("serve",), b"", Hardware(2, 2)).open(str(folder), (1, 3))


def answer(runner: Runner, **inputs: Array) -> list[Array]:
    return runner.run(inputs, [info.name for info in runner.signatures["serving_default"].outputs.values()])


def write_det(file: Path) -> None:
    """Write an operation that OpenVINO does not support."""
    node = helper.make_node("Det", ["x"], ["y"])
    write(file, [node], {"x": ("FLOAT", ["n", 2, 2])}, {"y": ("FLOAT", ["n"])})


def write_swish(file: Path) -> None:
    """Write an operation that only OpenVINO has."""
    node = helper.make_node("Swish", ["x"], ["y"], domain="org.openvinotoolkit")
    write(file, [node], {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["n", 4])})


def test_its_answers_are_the_runtimes_own(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    runner, _ = opened(tmp_path, "onnxruntime")
    direct = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        np.testing.assert_array_equal(answer(runner, x=given)[0], direct.run(["y"], {"x": given})[0])


def test_strings_are_bytes(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["text"], ["same"])
    write(tmp_path / "m.onnx", [node], {"text": ("STRING", ["n"])}, {"same": ("STRING", ["n"])})
    given = np.array(["grün".encode(), b""], object)
    assert answer(opened(tmp_path, "auto").runner, text=given)[0].tolist() == given.tolist()


def test_inputs_that_do_not_fit_are_the_callers_error(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    for engine in RUNTIMES:
        runner = opened(tmp_path, engine).runner
        for given in (np.zeros((1, 3), np.float32), np.zeros((1, 4), np.int32), np.zeros(4, np.float32)):
            with pytest.raises(StatusError) as raised:
                answer(runner, x=given)
            assert raised.value.code == Code.INVALID_ARGUMENT


def test_auto_times_both_and_takes_the_faster(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    choice = opened(tmp_path, "auto").choices["serving_default"]
    winner, other = choice.engine, next(name for name in RUNTIMES if name != choice.engine)
    taken, _, rest = choice.reason.partition(" ms of CPU per input; ")
    assert winner in RUNTIMES
    assert rest.startswith(f"{other} ")
    assert float(taken) <= float(rest.split()[1])


@pytest.mark.parametrize(("maker", "reader", "why"), [(write_det, 0, "Det"), (write_swish, 1, "Swish")])
def test_what_one_cannot_read_the_other_serves(
    tmp_path: Path, maker: Callable[[Path], None], reader: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    maker(tmp_path / "model.onnx")
    winner, other = RUNTIMES[reader], RUNTIMES[1 - reader]
    with pytest.raises(StatusError, match=why):
        opened(tmp_path, other)
    assert opened(tmp_path, "auto").choices["serving_default"].engine == winner
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"{tmp_path} is served by {winner}, as other engines do not read it: {other}: ")
    assert why in line


def test_auto_takes_it_for_integers_of_callers(tmp_path: Path) -> None:
    """OpenVINO computes 64-bit integers in 32 bits, and does not check the range of positions."""
    inputs: dict[str, Any] = {"x": ("INT64", ["n", 4])}
    node = helper.make_node("Add", ["x", "x"], ["y"])
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("INT64", ["n", 4])})
    runner, choices = opened(tmp_path, "auto")
    assert choices["serving_default"].engine == "onnxruntime"
    assert "it keeps the model's integer inputs exact" in choices["serving_default"].reason
    given = np.full((1, 4), 1 << 40, np.int64)
    np.testing.assert_array_equal(answer(runner, x=given)[0], given * 2)


def test_without_the_package_the_other_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dense(tmp_path / "model.onnx")
    monkeypatch.setattr(type(named("onnxruntime")), "package", "not_there")
    assert opened(tmp_path, "auto").choices["serving_default"].engine == "openvino"
    with pytest.raises(StatusError, match="engine onnxruntime: the package not_there is not installed"):
        opened(tmp_path, "onnxruntime")


def test_a_damaged_file_has_each_ones_reason(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    file = tmp_path / "model.onnx"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StatusError, match=r"no engine reads the model in .*openvino: .*; onnxruntime: "):
        opened(tmp_path, "auto")


@pytest.mark.parametrize("dtype", few_of(["BOOL", "FLOAT", "INT64", "UINT8"], "INT64"))
@pytest.mark.parametrize("name", RUNTIMES)
def test_every_engine_is_timed_with_scalars(tmp_path: Path, name: str, dtype: str) -> None:
    write(tmp_path / "model.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": (dtype, [])}, {"y": (dtype, [])})
    assert opened(tmp_path, name).choices["serving_default"].reason.endswith(" ms of CPU per input")
