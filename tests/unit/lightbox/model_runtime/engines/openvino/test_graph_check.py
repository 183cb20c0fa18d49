"""The static check: accepted and refused graphs, by the values that reach each operation."""

from __future__ import annotations

from lightbox.model_runtime.engines.openvino.graph_check import refusals
from support.graphs import FLOAT, INT32, Model


def test_an_input_without_a_rank() -> None:
    assert Model(shape=None).refusal("x:0") == "input 'x' has no known rank"


def test_inputs_that_are_open_otherwise() -> None:
    refused = "input 'x' is open in more than its batch and an image's sides"
    assert Model(shape=(-1, -1)).refusal("x:0") == refused
    assert Model(shape=(-1, -1, -1, -1)).refusal("x:0") == refused


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
