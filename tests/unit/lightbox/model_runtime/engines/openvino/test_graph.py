"""Graphs with functions, loops, great depth and missing nodes."""

from __future__ import annotations

from typing import Any

import pytest

from support.graphs import Model


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
