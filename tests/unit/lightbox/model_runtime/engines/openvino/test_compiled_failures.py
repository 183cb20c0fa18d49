"""A call that fails or is cut short leaves nothing behind in its engine, and says what is wrong with its sizes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from lightbox.model_runtime.engines import ENGINES
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino.compiled import _MOST_FAILURES, _Network
from lightbox.model_runtime.server.predict import run_options
from lightbox.model_runtime.wire.status import Code, StatusError
from support.onnx_models import write

RUNTIMES = [name for name in ENGINES if name != "tensorflow"]
SIDE = 8


def opened(folder: Path, engine: str, streams: int = 2) -> Runner:
    return named(engine).open(str(folder), OpenOptions(Hardware(2, streams), ("serve",))).runner


def write_open_sides(file: Path) -> None:
    """Write a network that declares any sides, and takes 8 by 8 pixels."""
    random = np.random.default_rng(1)
    constants = {
        "filter": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "sizes": np.array([1, 4 * SIDE * SIDE]),
        "weights": random.standard_normal((4 * SIDE * SIDE, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "filter"], ["parts"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["parts", "sizes"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    inputs: dict[str, Any] = {"image": ("FLOAT", [1, 3, "height", "width"])}
    write(file, nodes, inputs, {"scores": ("FLOAT", [1, 5])}, constants)


def write_by_values(file: Path) -> None:
    """Write a network that needs four numbers other than zero."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=1),
        helper.make_node("Relu", ["numbers"], ["positive"]),
        helper.make_node("Reshape", ["positive", "four"], ["y"]),
    ]
    constants = {"four": np.array([4])}
    write(file, nodes, {"x": ("FLOAT", [8])}, {"y": ("FLOAT", [4])}, constants)


def write_slow(file: Path) -> None:
    """Write a network that takes milliseconds for a matrix of 64 by 64, and seconds for a large one."""
    depth = 40
    nodes = [helper.make_node("MatMul", [f"x{at}", "x0"], [f"x{at + 1}"]) for at in range(depth)]
    write(file, nodes, {"x0": ("FLOAT", ["n", "n"])}, {f"x{depth}": ("FLOAT", ["n", "n"])})


@pytest.mark.parametrize("engine", RUNTIMES)
def test_sizes_that_a_network_does_not_take_are_the_callers_error(tmp_path: Path, engine: str) -> None:
    write_open_sides(tmp_path / "model.onnx")
    runner = opened(tmp_path, engine)
    fitting = np.ones((1, 3, SIDE, SIDE), np.float32)
    (expected,) = runner.run({"image": fitting}, ["scores"])
    for side in (12, 4):
        with pytest.raises(StatusError) as raised:
            runner.run({"image": np.ones((1, 3, side, side), np.float32)}, ["scores"])
        assert raised.value.code == Code.INVALID_ARGUMENT
        got = f"got image [1, 3, {side}, {side}]; the option image_size resizes images"
        assert raised.value.message == f"expected inputs of sizes that the model takes, {got}"
        for _ in range(3):
            np.testing.assert_array_equal(runner.run({"image": fitting}, ["scores"])[0], expected)


@pytest.mark.parametrize("engine", RUNTIMES)
def test_values_that_fail_a_call_fail_no_other(tmp_path: Path, engine: str) -> None:
    write_by_values(tmp_path / "model.onnx")
    runner = opened(tmp_path, engine)
    good, bad = np.array([0, 1, 0, 1, 0, 1, 0, 1], np.float32), np.ones(8, np.float32)

    def call(number: int) -> Code | list[float]:
        try:
            found: list[float] = runner.run({"x": bad if number % 4 == 1 else good}, ["y"])[0].tolist()
        except StatusError as error:
            return error.code
        return found

    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(call, range(8)))
    expected = [Code.INVALID_ARGUMENT if number % 4 == 1 else [1, 3, 5, 7] for number in range(8)]
    assert found == expected


@pytest.mark.parametrize("streams", [1, 2])
def test_a_call_beyond_its_deadline_leaves_its_engine_whole(tmp_path: Path, streams: int) -> None:
    write_slow(tmp_path / "model.onnx")
    runner = opened(tmp_path, "openvino", streams)

    def call(side: int, seconds: float | None = None) -> Array:
        return runner.run({"x0": np.eye(side, dtype=np.float32)}, ["x40"], run_options(seconds))[0]

    np.testing.assert_array_equal(call(64), np.eye(64))
    with pytest.raises(StatusError) as raised:
        call(1000, 0.005)
    assert raised.value.code == Code.DEADLINE_EXCEEDED
    for _ in range(3):
        np.testing.assert_array_equal(call(64), np.eye(64))


@pytest.mark.parametrize("engine", RUNTIMES)
def test_only_open_sizes_have_a_hint(tmp_path: Path, engine: str) -> None:
    constants = {"one": np.array([1, 3, 8, 8])}
    shape: list[int | str] = ["rows", 3, 8, 8]
    nodes = [helper.make_node("Reshape", ["image", "one"], ["y"])]
    write(tmp_path / "model.onnx", nodes, {"image": ("FLOAT", shape)}, {"y": ("FLOAT", [1, 3, 8, 8])}, constants)
    with pytest.raises(StatusError) as raised:
        opened(tmp_path, engine).run({"image": np.ones((2, 3, 8, 8), np.float32)}, ["y"])
    assert raised.value.code == Code.INVALID_ARGUMENT
    assert "image_size" not in raised.value.message


def test_failures_in_a_row_compile_no_model_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_by_values(tmp_path / "model.onnx")
    runner = opened(tmp_path, "openvino")
    compiled, compile_one = [], _Network.compile

    def counted(network: _Network) -> object:
        compiled.append(network)
        return compile_one(network)

    monkeypatch.setattr(_Network, "compile", counted)
    calls = 8
    for _ in range(calls):
        with pytest.raises(StatusError, match="OpenVINO"):
            runner.run({"x": np.ones(8, np.float32)}, ["y"])
    assert len(compiled) == calls - 1 + _MOST_FAILURES
    good = np.array([0, 1, 0, 1, 0, 1, 0, 1], np.float32)
    assert runner.run({"x": good}, ["y"])[0].tolist() == [1, 3, 5, 7]
