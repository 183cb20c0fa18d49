"""No call reads or writes beyond a tensor, or ends the process: the calls run in a child."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from lightbox.model_runtime.engines import ENGINES
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.wire.status import StatusError
from support.isolation import clean_environ
from support.onnx_models import write
from support.parameters import each

RUNTIMES = [name for name in ENGINES if name != "tensorflow"]
CALLS = """
import sys
import numpy as np
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.wire.status import StatusError

for folder in map(str.rstrip, sys.stdin):
    runner = named(sys.argv[1]).open(folder, OpenOptions(Hardware(2, 2), ("serve",))).runner
    calls = np.load(folder + "/calls.npz")
    for number in range(len({name.partition(" ")[0] for name in calls})):
        feeds = {name.partition(" ")[2]: calls[name] for name in calls if name.startswith(f"{number} ")}
        try:
            print("answer", runner.run(feeds, ["y"])[0].shape)
        except StatusError as error:
            print(error.code.name)
    print("end", flush=True)
"""
DATA = np.arange(25, dtype=np.float32).reshape(5, 5)
Feeds = dict[str, np.ndarray[Any, Any]]


CHILDREN = dict[str, "subprocess.Popen[str]"]()
"""A process of each engine for all cases: its start takes longer than they do. After a crash comes another."""


@pytest.fixture(scope="module", autouse=True)
def children() -> Iterator[None]:
    """End the processes."""
    yield
    while CHILDREN:
        CHILDREN.popitem()[1].communicate()


def outcomes(folder: Path, engine: str, calls: list[Feeds]) -> list[str]:
    """Return how each call ends."""
    given = {f"{number} {name}": array for number, call in enumerate(calls) for name, array in call.items()}
    np.savez(folder / "calls.npz", **given)  # type: ignore[arg-type]
    if engine not in CHILDREN:
        command = [sys.executable, "-c", CALLS, engine]
        CHILDREN[engine] = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=clean_environ())
    child = CHILDREN[engine]
    assert child.stdin and child.stdout
    child.stdin.write(f"{folder}\n")
    child.stdin.flush()
    ends = list[str]()
    while (line := child.stdout.readline()) != "end\n":
        if not line:
            del CHILDREN[engine]
            pytest.fail(f"the process ended with {child.wait()} after {ends}")
        ends.append(line.split()[0])
    return ends


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@each("engine", RUNTIMES)
@each("last", ["MatMul", "Gemm", "Gemm of rows", "by values"])
def test_a_last_layer_that_does_not_fit(tmp_path: Path, last: str, engine: str) -> None:
    constants = {"flat": np.array([1, -1]), "weights": floats(192, 5), "rows": floats(5, 192)}
    layer = {
        "MatMul": helper.make_node("MatMul", ["numbers", "weights"], ["y"]),
        "Gemm": helper.make_node("Gemm", ["numbers", "weights"], ["y"]),
        "Gemm of rows": helper.make_node("Gemm", ["numbers", "rows"], ["y"], transB=1),
        "by values": helper.make_node("MatMul", ["numbers", "weights"], ["y"]),
    }[last]
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["numbers"]), layer]
    calls = [np.ones((1, 3, side, side), np.float32) for side in (8, 4, 12, 8)]
    if last == "by values":
        nodes[:1] = [
            helper.make_node("Reshape", ["x", "all"], ["row"]),
            helper.make_node("NonZero", ["row"], ["places"]),
            helper.make_node("Cast", ["places"], ["numbers"], to=1),
        ]
        constants["all"] = np.array([-1])
    outputs: dict[str, Any] = {"y": ("FLOAT", [1, 5])}
    write(tmp_path / "model.onnx", nodes, {"x": ("FLOAT", [1, 3, "h", "w"])}, outputs, constants)
    expected = ["answer", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "answer"]
    assert outcomes(tmp_path, engine, [{"x": call} for call in calls]) == expected


@each("engine", RUNTIMES)
@each("size", [5, "n"])
@each("kind", ["GatherND", "ScatterElements"])
def test_positions_beyond_a_tensor(tmp_path: Path, kind: str, size: int | str, engine: str) -> None:
    inputs: dict[str, Any] = {"data": ("FLOAT", [size, size]), "at": ("INT64", [1, 2])}
    names, given = ["data", "at"], {"data": DATA}
    if kind == "ScatterElements":
        inputs["more"] = ("FLOAT", [1, 2])
        names, given = [*names, "more"], given | {"more": np.ones((1, 2), np.float32)}
    shape: list[int | str] = ["a"] if kind == "GatherND" else [size, size]
    write(tmp_path / "model.onnx", [helper.make_node(kind, names, ["y"])], inputs, {"y": ("FLOAT", shape)})
    beyond = (5, 10**8, -6, -(10**8))
    calls = [given | {"at": np.array([[1, at]])} for at in (4, -5, *beyond, 4)]
    assert outcomes(tmp_path, engine, calls) == ["answer"] * 2 + ["INVALID_ARGUMENT"] * 4 + ["answer"]


@each("engine", RUNTIMES)
@each("dtype", ["INT32", "INT64"])
@each("shape", [[], [1], [2, 1]])
@each("size", [5, "n"])
def test_rows_beyond_a_tensor(tmp_path: Path, size: int | str, shape: list[int], dtype: str, engine: str) -> None:
    node = helper.make_node("Gather", ["data", "at"], ["y"], axis=1)
    inputs: dict[str, Any] = {"data": ("FLOAT", [size, size]), "at": (dtype, shape)}
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("FLOAT", None)})
    calls = [{"data": DATA, "at": np.full(shape, at, dtype.lower())} for at in (4, -5, 5, 10**8, -6, -(10**8), 4)]
    assert outcomes(tmp_path, engine, calls) == ["answer"] * 2 + ["INVALID_ARGUMENT"] * 4 + ["answer"]


@each("engine", RUNTIMES)
def test_a_tensor_too_short_for_constant_rows(tmp_path: Path, engine: str) -> None:
    nodes = [helper.make_node("Gather", ["data", name], [name + "_row"]) for name in ("third", "last")]
    nodes.append(helper.make_node("Add", ["third_row", "last_row"], ["y"]))
    constants = {"third": np.array(2), "last": np.array(-1)}
    write(tmp_path / "model.onnx", nodes, {"data": ("FLOAT", ["n", 5])}, {"y": ("FLOAT", [5])}, constants)
    calls = [{"data": DATA[:rows]} for rows in (5, 3, 2, 3)]
    assert outcomes(tmp_path, engine, calls) == ["answer"] * 2 + ["INVALID_ARGUMENT", "answer"]


def graph(name: str, inputs: dict[str, Any], nodes: list[Any], outputs: dict[str, Any]) -> Any:
    described = [
        [helper.make_tensor_value_info(key, *given) for key, given in side.items()] for side in (inputs, outputs)
    ]
    return helper.make_graph(nodes, name, *described)


@each("engine", RUNTIMES)
@each("is_constant", [False, True])
@each("kind", ["Loop", "If"])
def test_positions_beyond_a_tensor_within_a_body(tmp_path: Path, kind: str, is_constant: bool, engine: str) -> None:
    rows: Any = (TensorProto.FLOAT, [1, "m"])
    flag: Any = (TensorProto.BOOL, [])
    number: Any = (TensorProto.INT64, [])
    gather = helper.make_node("GatherND", ["data", "at"], ["row"])
    if kind == "Loop":
        nodes = [helper.make_node("Identity", ["before"], ["after"]), gather]
        body = graph("body", {"step": number, "before": flag}, nodes, {"after": flag, "row": rows})
        node = helper.make_node("Loop", ["count", "yes"], ["y"], body=body)
    else:
        other = helper.make_node("Identity", ["data"], ["all"])
        branches = graph("then", {}, [gather], {"row": rows}), graph("else", {}, [other], {"all": rows})
        node = helper.make_node("If", ["is_on"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs: dict[str, Any] = {"data": ("FLOAT", ["n", "m"]), "at": ("INT64", [1, 1]), "is_on": ("BOOL", [])}
    constants = {"count": np.array(2), "yes": np.array(True)}
    if is_constant:
        constants["at"] = np.array([[4]])
        del inputs["at"]
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("FLOAT", None)}, constants)
    calls = [{"data": DATA, "at": np.array([[at]]), "is_on": np.array(True)} for at in (4, 10**8, -(10**8), 4)]
    if is_constant:
        assert outcomes(tmp_path, engine, [{"data": DATA, "is_on": np.array(True)}]) == ["answer"]
    elif engine == "openvino":
        with pytest.raises(StatusError, match="GatherND takes computed positions within a loop or a condition"):
            named(engine).open(str(tmp_path), OpenOptions(Hardware(2, 2), ("serve",)))
    else:
        assert outcomes(tmp_path, engine, calls) == ["answer", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "answer"]


@pytest.mark.parametrize("engine", RUNTIMES)
def test_a_range_without_steps(tmp_path: Path, engine: str) -> None:
    inputs: dict[str, Any] = {name: ("INT32", []) for name in ("start", "stop", "step")}
    write(tmp_path / "model.onnx", [helper.make_node("Range", list(inputs), ["y"])], inputs, {"y": ("INT32", ["n"])})
    calls = [dict(zip(inputs, np.array([0, 5, step], np.int32), strict=True)) for step in (1, 0, 2)]
    assert outcomes(tmp_path, engine, calls) == ["answer", "INVALID_ARGUMENT", "answer"]


@each("engine", RUNTIMES)
@each("dtype", ["int32", "int64"])
@each("kind", ["Div", "Mod"])
def test_the_smallest_integer_divided_by_minus_one(tmp_path: Path, kind: str, dtype: str, engine: str) -> None:
    inputs: dict[str, Any] = {name: (dtype.upper(), ["n"]) for name in ("x", "by")}
    write(tmp_path / "model.onnx", [helper.make_node(kind, ["x", "by"], ["y"])], inputs, {"y": (dtype.upper(), ["n"])})
    least = np.iinfo(dtype).min
    pairs = [(7, -1), (least, -1), (7, 0), (least + 1, -1)]
    calls = [{"x": np.array([x], dtype), "by": np.array([by], dtype)} for x, by in pairs]
    by_zero = "answer" if engine == "openvino" else "INVALID_ARGUMENT"
    assert outcomes(tmp_path, engine, calls) == ["answer", "answer", by_zero, "answer"]


@pytest.mark.parametrize("engine", RUNTIMES)
@pytest.mark.parametrize("place", ["graph", "Loop", "If"])
def test_the_smallest_integer_that_a_graph_computes_divided_by_minus_one(
    tmp_path: Path, place: str, engine: str
) -> None:
    numbers: Any = (TensorProto.INT32, ["n"])
    flag: Any = (TensorProto.BOOL, [])
    casts = [helper.make_node("Cast", [name], [f"{name}_int"], to=TensorProto.INT32) for name in ("x", "by")]
    divide = helper.make_node("Div", ["x_int", "by_int"], ["q"])
    nodes = [*casts, helper.make_node("Div", ["x_int", "by_int"], ["y"])]
    if place == "Loop":
        step: Any = (TensorProto.INT64, [])
        keep = helper.make_node("Identity", ["before"], ["after"])
        body = graph("body", {"step": step, "before": flag}, [keep, divide], {"after": flag, "q": numbers})
        nodes[2:] = [helper.make_node("Loop", ["count", "yes"], ["y"], body=body)]
    elif place == "If":
        branches = graph("then", {}, [divide], {"q": numbers}), graph("else", {}, [divide], {"q": numbers})
        nodes[2:] = [helper.make_node("If", ["is_on"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    inputs: dict[str, Any] = {"x": ("FLOAT", ["n"]), "by": ("FLOAT", ["n"]), "is_on": ("BOOL", [])}
    constants = {"count": np.array(2), "yes": np.array(True)}
    write(tmp_path / "model.onnx", nodes, inputs, {"y": ("INT32", None)}, constants)
    calls = [
        {"x": np.array([x], np.float32), "by": np.array([-1], np.float32), "is_on": np.array(is_on)}
        for x in (7, np.nan, np.inf, -(2.0**31))
        for is_on in (True, False)
    ]
    assert outcomes(tmp_path, engine, calls) == ["answer"] * len(calls)
