"""Divisions of integers that would end the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.engines.onnxruntime.divisions import _GIVE_FLOATS, guard_divisions
from support.onnx_models import write
from support.parameters import each

from .test_onnxruntime import answer, loaded

LEAST = np.iinfo(np.int32).min
FLOATS = [-np.inf, -3e9, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 7, np.inf, np.nan]


def dividends(dtype: np.dtype[Any]) -> list[Any]:
    """Return numbers, also as divisors."""
    if dtype.kind == "f":
        return FLOATS
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return [number for number in (least, least + 1, -3, -2, -1, 1, 2, 3, 7, most) if number >= least and number]


def quotient(of: Any, by: Any, dtype: np.dtype[Any]) -> Any:
    """Return a quotient, of integers rounded towards zero; the smallest integer divided by -1 stays."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.divide(dtype.type(of), dtype.type(by))
    rounded = abs(of) // abs(by) * (1 if (of < 0) == (by < 0) else -1)
    return rounded if rounded <= np.iinfo(dtype).max else -rounded


@each("opset", [9, 11, 21])
@each("dtype", ["INT32", "INT64", "FLOAT", "DOUBLE", "UINT32"])
@each("is_known", [True, False])
def test_a_changed_division_has_the_same_results(tmp_path: Path, is_known: bool, dtype: str, opset: int) -> None:
    """A type behind an operation of another domain is unknown."""
    kind = np.dtype(dtype.lower().replace("float", "float32"))
    numbers = dividends(kind)
    onnx_dtype = getattr(TensorProto, dtype)
    rows: Any = helper.make_tensor_value_info("of", onnx_dtype, ["n", 1])
    columns, table = (helper.make_tensor_value_info(name, onnx_dtype, None) for name in ("by", "y"))
    divide = helper.make_node("Div", ["of", "by"], ["y"])
    own = helper.make_function("own", "Divide", ["of", "by"], ["y"], [divide], [helper.make_opsetid("", opset)])
    node = divide if is_known else helper.make_node("Divide", ["of", "by"], ["y"], domain="own")
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    graph = helper.make_graph([node], "made", [rows, columns], [table])
    functions = [] if is_known else [own]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8, functions=functions), tmp_path / "model.onnx")
    (found,) = answer(loaded(tmp_path), of=np.array(numbers, kind)[:, None], by=np.array(numbers, kind))
    expected = [[quotient(of, by, kind) for by in numbers] for of in numbers]
    np.testing.assert_array_equal(found, np.array(expected, kind))


def divisions(tmp_path: Path, nodes: list[Any], constants: dict[str, Array], opset: int = 17) -> bytes | None:
    """Return the changed content of a file that takes floats x and integers n, None if it stays."""
    inputs: dict[str, Any] = {"x": ("FLOAT", ["a", "b"]), "n": ("INT32", ["a", "b"])}
    last = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    write(tmp_path / "model.onnx", [*nodes, last], inputs, {"y": ("FLOAT", None)}, constants, opset)
    return guard_divisions((tmp_path / "model.onnx").read_bytes())


@each(
    ("of", "by", "stays"),
    [
        ("x", "x", True),
        ("root", "x", True),
        ("n", "two", True),
        ("n", "two_packed", True),
        ("two", "n", True),
        ("n", "less", False),
        ("n", "less_packed", False),
        ("least", "n", False),
        ("n", "n", False),
        ("sizes", "sizes", False),
        ("size", "made", True),
    ],
)
def test_only_divisions_that_may_end_the_process_are_changed(tmp_path: Path, of: str, by: str, stays: bool) -> None:
    constants = {
        "two": np.array([2, 3], np.int32),
        "less": np.array([2, -1], np.int32),
        "least": np.array([LEAST], np.int32),
    }
    packed = [
        helper.make_node("Constant", [], [f"{name}_packed"], value=helper.make_tensor(name, TensorProto.INT32, [2], at))
        for name, at in (("two", [2, 3]), ("less", [2, -1]))
    ]
    nodes = [
        *packed,
        helper.make_node("Sqrt", ["x"], ["root"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Constant", [], ["made"], value=numpy_helper.from_array(np.array([4]))),
        helper.make_node("Div", [of, by], ["q"]),
    ]
    assert (divisions(tmp_path, nodes, constants) is None) == stays


def test_a_division_of_an_old_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'q' may be the smallest integer divided by -1.*: expected opset 9 or later"):
        divisions(tmp_path, [helper.make_node("Div", ["n", "n"], ["q"])], {}, opset=8)
    assert divisions(tmp_path, [helper.make_node("Div", ["x", "x"], ["q"])], {}, opset=8) is None
    nodes = [helper.make_node("Selu", ["x"], ["z"]), helper.make_node("Div", ["z", "z"], ["q"])]
    assert divisions(tmp_path, nodes, {}, opset=8) is None


@pytest.mark.parametrize(("limit", "value"), [("_MOST_SECONDS", -1), ("_MOST_FIELDS", 1)])
def test_the_nodes_are_read_within_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"{guard_divisions.__module__}.{limit}", value)
    with pytest.raises(ValueError, match=r"its nodes were not read within|a part of it has 1 fields or more"):
        divisions(tmp_path, [helper.make_node("Div", ["x", "x"], ["q"])], {})


def test_a_forest_of_trees_may_have_millions_of_numbers(tmp_path: Path) -> None:
    forest = helper.make_node("TreeEnsembleRegressor", ["x"], ["z"], domain="ai.onnx.ml")
    forest.attribute.add(name="nodes_values", type=onnx.AttributeProto.FLOATS, floats=[0.5] * 1_000_000)
    assert divisions(tmp_path, [forest, helper.make_node("Div", ["n", "n"], ["q"])], {})


def test_all_operations_that_only_give_floats_are_known() -> None:
    floats = {f"tensor({name})" for name in ("float16", "bfloat16", "float", "double")}
    types: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.outputs:
            types.setdefault(schema.name, set()).update(schema.outputs[0].types)
    assert {name for name, found in types.items() if found <= floats} == _GIVE_FLOATS


def test_a_changed_file_finds_its_weights(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": ("INT32", ["n", 4])}
    nodes = [helper.make_node("Div", ["x", "x"], ["one"]), helper.make_node("Add", ["one", "more"], ["y"])]
    more = np.arange(4, dtype=np.int32)
    write(tmp_path / "model.onnx", nodes, inputs, {"y": ("INT32", ["n", 4])}, {"more": more})
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size
    (found,) = answer(loaded(tmp_path), x=np.full((1, 4), 5, np.int32))
    np.testing.assert_array_equal(found, more[None] + 1)
