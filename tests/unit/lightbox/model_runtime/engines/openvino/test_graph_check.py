"""The static check: accepted and refused graphs, by the values that reach each operation."""

from __future__ import annotations

from typing import Any

import pytest

from lightbox.model_runtime.engines.openvino.graph_check import refusals
from support.graphs import BOOL, DOUBLE, FLOAT, INT32, INT64, STRING, Model
from support.parameters import each


def test_floats_pass() -> None:
    model = Model()
    model.node("w", "Const", dtype=FLOAT)
    model.node("product", "MatMul", "x", "w")
    model.node("probabilities", "Softmax", "product")
    assert model.refusal("probabilities:0") is None


def test_an_operation_that_is_not_known() -> None:
    model = Model()
    model.node("image", "DecodeJpeg", "x")
    assert model.refusal("image:0") == "operation DecodeJpeg (image) is not known to give equal results"


@pytest.mark.parametrize(("dtype", "word"), [(INT64, "int64"), (DOUBLE, "double"), (STRING, "string")])
def test_inputs_that_openvino_computes_otherwise(dtype: int, word: str) -> None:
    assert Model(dtype).refusal("x:0", dtype) == f"input 'x' is {word}"


def test_an_input_without_a_rank() -> None:
    assert Model(shape=None).refusal("x:0") == "input 'x' has no known rank"


def test_integers_of_the_caller() -> None:
    model = Model(INT32)
    model.node("one", "Const", dtype=INT32)
    model.node("sum", "AddV2", "x", "one")
    assert model.refusal("sum:0", INT32) == "operation AddV2 (sum) computes with int32 of the caller's values"


def test_integers_of_shapes() -> None:
    model = Model()
    model.node("shape", "Shape", "x")
    model.node("two", "Const", dtype=INT32)
    model.node("sides", "Mul", "shape", "two")
    model.node("reshaped", "Reshape", "x", "sides")
    assert model.refusal("reshaped:0") is None


def test_positions_of_the_caller() -> None:
    model = Model(INT32)
    model.node("table", "Const", dtype=FLOAT)
    model.node("axis", "Const", dtype=INT32)
    model.node("row", "GatherV2", "table", "x", "axis")
    assert model.refusal("row:0") == "operation GatherV2 (row) takes positions from the caller"


def test_positions_that_were_counted() -> None:
    model = Model()
    model.node("count", "Const", dtype=INT32)
    model.node("top", "TopKV2", "x", "count")
    model.node("axis", "Const", dtype=INT32)
    model.node("rows", "GatherV2", "x", "top:1", "axis")
    model.node("few", "Less", "top:1", "count")
    model.node("more", "AddV2", "top:1", "count")
    assert model.refusal("rows:0") is None
    assert model.refusal("few:0", BOOL) is None
    assert model.refusal("more:0", INT32) == "operation AddV2 (more) computes with int32 of the caller's values"
    assert model.refusal("top:0") is None
    assert model.refusal("top:1", INT32) is None


@pytest.mark.parametrize(("positions", "refused"), [("two", False), ("shape", True)])
def test_positions_that_depend_on_the_batch(positions: str, refused: bool) -> None:
    """Out of range, TensorFlow raises an error and OpenVINO answers. The canary covers constant positions."""
    model = Model()
    model.node("two", "Const", dtype=INT32)
    model.node("shape", "Shape", "x")
    model.node("cut", "Slice", "x", positions, "two")
    assert model.refusal("cut:0") == ("operation Slice (cut) takes positions from shapes" if refused else None)


def test_images_with_open_sides_are_not_cut() -> None:
    model = Model(shape=(-1, -1, -1, 3))
    model.node("two", "Const", dtype=INT32)
    model.node("cut", "StridedSlice", "x", "two", "two", "two")
    assert model.refusal("cut:0") == "operation StridedSlice (cut) takes from what has open sides"


def test_inputs_that_are_open_otherwise() -> None:
    refused = "input 'x' is open in more than its batch and an image's sides"
    assert Model(shape=(-1, -1)).refusal("x:0") == refused
    assert Model(shape=(-1, -1, -1, -1)).refusal("x:0") == refused


def test_steps_that_may_be_nothing() -> None:
    """A step of zero ends the process in OpenVINO."""
    model = Model()
    model.node("two", "Const", dtype=INT32)
    model.node("shape", "Size", "x")
    model.node("steps", "Range", "two", "two", "shape")
    assert model.refusal("steps:0", INT32) == "operation Range (steps) takes limits from shapes"


def test_large_integers() -> None:
    model = Model()
    model.node("large", "Const", dtype=INT64)
    model.meta.graph_def.node[-1].attr["value"].tensor.int64_val[0] = 1 << 40
    assert model.refusal("large:0", INT64) == "operation Const (large) holds int64 of 16777216 or more"


def test_products_that_may_overflow() -> None:
    model = Model()
    last = "x"
    for number in range(6):
        last = model.node(f"product{number}", "Mul", last, "x")
    model.node("bounded", "Sigmoid", "x")
    model.node("weighted", "Mul", "x", "bounded")
    model.node("a", "Relu", last)
    model.node("b", "Relu", "weighted")
    assert model.refusal("a:0") == "operation Relu (a) may be given NaN"
    assert model.refusal("b:0") is None


@each(("value", "refused"), [(2.0, False), (0.0, True), (float("nan"), True), (float("inf"), True)])
def test_constants_that_make_nan(value: float, refused: bool) -> None:
    model = Model()
    model.node("by", "Const", dtype=FLOAT)
    model.meta.graph_def.node[-1].attr["value"].tensor.float_val[0] = value
    model.node("quotient", "RealDiv", "x", "by")
    model.node("y", "Relu", "quotient")
    assert model.refusal("y:0") == ("operation Relu (y) may be given NaN" if refused else None)


def test_what_is_set_as_a_model_is_loaded() -> None:
    model = Model()
    model.node("variable", "VarHandleOp", dtype=FLOAT)
    model.node("value", "ReadVariableOp", "variable", dtype=FLOAT)
    model.node("sum", "AddV2", "x", "value")
    model.node("set", "AssignVariableOp", "variable", "value", dtype=FLOAT)
    model.node("init", "NoOp", "^set")
    model.meta.collection_def["saved_model_main_op"].node_list.value.append("init")
    refused = "'saved_model_main_op' changes variables, which this signature may read"
    assert model.refusal("sum:0") == refused


def test_a_cast_of_floats_to_integers() -> None:
    model = Model()
    model.node("whole", "Cast", "x", SrcT=FLOAT, DstT=INT32)
    assert model.refusal("whole:0", INT32) == "operation Cast (whole) turns float into int32"


def test_a_constant_of_another_type() -> None:
    model = Model()
    model.node("pi", "Const", dtype=DOUBLE)
    model.node("sum", "AddV2", "x", "pi")
    assert model.refusal("sum:0") == "operation Const (pi) is a constant of double"


def test_a_normalisation_that_learns() -> None:
    """``is_training`` is true by default, and files omit defaults."""
    model = Model(shape=(-1, 4, 4, 3))
    for name in ("scale", "offset", "mean", "variance"):
        model.node(name, "Const", dtype=FLOAT)
    model.node("normal", "FusedBatchNormV3", "x", "scale", "offset", "mean", "variance")
    assert model.refusal("normal:0") == "operation FusedBatchNormV3 (normal) learns as it runs (is_training)"
    model.meta.graph_def.node[-1].attr["is_training"].b = False
    assert model.refusal("normal:0") is None


def test_functions_are_followed() -> None:
    model = Model()
    model.function(
        "inner", [("twice", "Square", ["a"], {}), ("out", "Relu", ["twice:y:0"], {})], "a", "out:activations:0"
    )
    assert model.refusal(model.call("inner", "x") + ":0") is None


def test_what_a_function_runs_for_its_effect() -> None:
    """No node uses an output of an Assert, so OpenVINO drops it."""
    model = Model()
    nodes: list[tuple[Any, ...]] = [("out", "Relu", ["a"], {}), ("check", "Assert", ["a"], {})]
    model.function("inner", nodes, "a", "out:activations:0", runs="check")
    refusal = model.refusal(model.call("inner", "x") + ":0")
    assert refusal == "operation Assert (check) is not known to give equal results"


def test_a_function_that_calls_itself() -> None:
    model = Model()
    model.function("inner", [("again", "PartitionedCall", ["a"], {})], "a", "again:output:0")
    model.meta.graph_def.library.function[0].node_def[0].attr["f"].func.name = "inner"
    refusal = model.refusal(model.call("inner", "x") + ":0")
    assert refusal == "operation PartitionedCall (again) calls 'inner', which cannot be followed"


def test_functions_that_call_others_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level doubles the nodes that are followed."""
    monkeypatch.setattr("lightbox.model_runtime.engines.openvino.graph_check._MOST_STEPS", 1000)
    model = Model()
    for level in range(40):
        calls: list[tuple[Any, ...]] = [
            (name, "PartitionedCall", [source], {}) for name, source in (("a", "x"), ("b", "a:output:0"))
        ]
        model.function(f"level{level}", calls, "x", "b:output:0")
        for node in model.meta.graph_def.library.function[level].node_def:
            node.attr["f"].func.name = f"level{level + 1}"
    model.function("level40", [("out", "Relu", ["x"], {})], "x", "out:activations:0")
    assert model.refusal(model.call("level0", "x") + ":0") == "its functions call too many others to be followed"


def test_a_loop_of_tensorflow_1() -> None:
    model = Model()
    model.node("merge", "Identity", "next")
    model.node("next", "Relu", "merge")
    assert model.refusal("next:0") == "operation Relu (next) is part of a loop"


def test_a_graph_of_great_depth() -> None:
    model = Model()
    last = "x"
    for number in range(30_000):
        last = model.node(f"relu{number}", "Relu", last)
    assert model.refusal(f"{last}:0") is None


def test_a_node_that_is_not_there_and_one_with_too_few_inputs() -> None:
    model = Model()
    model.node("sum", "Mean", "x")
    assert model.refusal("nowhere:0") == "operation nowhere is not in the graph"
    assert model.refusal("sum:0") == "operation Mean (sum) has 1 inputs"


def test_another_signature_that_changes_variables() -> None:
    model = Model()
    model.node("variable", "VarHandleOp", dtype=FLOAT)
    model.node("value", "ReadVariableOp", "variable", dtype=FLOAT)
    model.node("sum", "AddV2", "x", "value")
    assert model.refusal("sum:0") is None
    model.node("assign", "AssignAddVariableOp", "variable", "x", dtype=FLOAT)
    model.node("counted", "Identity", "value", "^assign")
    learn = model.meta.signature_def["learn"]
    learn.inputs["x"].CopyFrom(model.meta.signature_def["serving_default"].inputs["x"])
    learn.outputs["n"].name, learn.outputs["n"].dtype = "counted:0", FLOAT
    found = refusals(model.meta)
    assert found["learn"] == "operation AssignAddVariableOp (assign) is not known to give equal results"
    assert found["serving_default"] == "'learn' changes variables, which this signature may read"


def test_outputs_are_as_declared() -> None:
    model = Model()
    model.node("best", "ArgMax", "x", "x")
    assert model.refusal("best:0", INT32) == "output 'y' is declared int32 but computed as int64"


def test_signatures_of_tensorflows_own_are_passed_over() -> None:
    model = Model()
    model.meta.signature_def["__saved_model_init_op"].outputs["init"].name = "NoOp"
    assert model.refusal("x:0") is None


def test_an_input_that_is_not_fed() -> None:
    model = Model()
    model.node("other", "Placeholder", dtype=FLOAT)
    model.node("sum", "AddV2", "x", "other")
    assert model.refusal("sum:0") == "operation Placeholder (other) is not known to give equal results"
