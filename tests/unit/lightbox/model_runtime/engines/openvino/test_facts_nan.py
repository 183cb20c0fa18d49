"""The static check: values that OpenVINO would lose, and graphs that it reads differently."""

from __future__ import annotations

import pytest

from lightbox.model_runtime.engines.openvino.graph_check import refusals
from support.graphs import BOOL, FLOAT, INT32, INT64, Model
from support.parameters import each


@each("op", ["Relu", "Relu6", "Exp", "Max", "ArgMax", "Greater", "Maximum"])
def test_nan_that_openvino_would_lose(op: str) -> None:
    """OpenVINO's Relu turns NaN into 0, and its Greater into true: the result is finite and wrong."""
    model = Model()
    model.node("two", "Const", dtype=FLOAT)
    model.node("axis", "Const", dtype=INT32)
    model.node("log", "Log", "x")
    others = {"Max": ["axis"], "ArgMax": ["axis"], "Greater": ["two"], "Maximum": ["two"]}.get(op, [])
    model.node("lost", op, "log", *others)
    dtype = {"ArgMax": INT64, "Greater": BOOL}.get(op, FLOAT)
    assert model.refusal("lost:0", dtype) == f"operation {op} (lost) may be given NaN"
    assert model.refusal("log:0") is None


def test_what_is_divided_by_the_callers_values() -> None:
    model = Model()
    model.node("two", "Const", dtype=FLOAT)
    model.node("half", "RealDiv", "x", "two")
    model.node("inverse", "RealDiv", "two", "x")
    model.node("a", "Relu", "half")
    model.node("b", "Relu", "inverse")
    assert model.refusal("a:0") is None
    assert model.refusal("b:0") == "operation Relu (b) may be given NaN"


@pytest.mark.parametrize("threshold", [0.5, 0.0])
def test_boxes_that_only_touch(threshold: float) -> None:
    model = Model(shape=(-1, 4))
    model.node("axis", "Const", dtype=INT32)
    model.node("scores", "Sum", "x", "axis")
    model.node("threshold", "Const", dtype=FLOAT)
    model.meta.graph_def.node[-1].attr["value"].tensor.float_val[0] = threshold
    model.node("kept", "NonMaxSuppressionV3", "x", "scores", "axis", "threshold", "threshold")
    refused = "operation NonMaxSuppressionV3 (kept) has no constant threshold above 0"
    assert model.refusal("kept:0", INT32) == (None if threshold else refused)


def test_an_output_that_is_named_like_an_input() -> None:
    model = Model()
    model.node("y", "Relu", "x")
    model.meta.signature_def["serving_default"].outputs["x"].name = "y:0"
    model.meta.signature_def["serving_default"].outputs["x"].dtype = FLOAT
    assert model.refusal("x:0") == "output 'x' is named like an input"


@each(
    ("op", "is_pure"),
    [("ScatterNd", True), ("ScatterNdAdd", False), ("ScatterUpdate", False), ("ResourceGather", True)],
)
def test_what_changes_variables(op: str, is_pure: bool) -> None:
    model = Model()
    model.node("other", op, "x")
    other = model.meta.signature_def["other"]
    other.inputs["x"].CopyFrom(model.meta.signature_def["serving_default"].inputs["x"])
    other.outputs["y"].name, other.outputs["y"].dtype = "other:0", FLOAT
    info = model.meta.signature_def["serving_default"].outputs["y"]
    info.name, info.dtype = "x:0", FLOAT
    assert (refusals(model.meta)["serving_default"] is None) == is_pure
