"""Models as TensorFlow 1 writes them: reference and resource variables, its loop and its switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from support.tempting_models.cases import Case, Make, Model, Spec, f32, flag


def _plain(answer: Callable[..., Any]) -> Make:
    return lambda tf: lambda *inputs: answer(*(item.numpy() for item in inputs))


CASES = [
    Case("reference", {"x": f32(None)}, _plain(lambda x: x * np.float32(2) + np.float32(0.5)), [([1, 2],), ([],)]),
    Case("resource", {"x": f32(None)}, _plain(lambda x: x * np.float32(3)), [([1, 2],)]),
    Case("loop", {"x": f32(None)}, _plain(lambda x: x * np.float32(8)), [([1, 2],)]),
    Case("switch", {"x": f32(None), "up": flag()}, _plain(lambda x, up: x + 1 if up else x - 1),
         [([1], True), ([1], False)]),
    Case("placeholder", {"x": Spec("float32", None)}, _plain(lambda x: x + 1), [([1],), (2.0,)]),
    Case("int_variable", {"x": f32(None)}, _plain(lambda x: x + np.float32(7)), [([1],)]),
    Case("wide_variable", {"x": f32(None)}, _plain(lambda x: {"y": x + 1, "count": np.int64(2**40)}), [([1],)]),
]  # fmt: skip
INITIALISED = [Case("initialised", {"x": f32(None)}, _plain(lambda x: x + np.float32(5)), [([1],)])]
FED_INSIDE = [Case("inside", {"x": f32(None)}, _plain(lambda x: x * np.float32(2)), [([1, -1],)])]


def _export(tf: Any, folder: Path) -> Mapping[str, Callable[..., Any]]:
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            signatures = {case.name: _signature(tf, case) for case in CASES}
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(str(folder))
            builder.add_meta_graph_and_variables(session, ["serve"], signatures)
            builder.save()
    finally:
        v1.enable_control_flow_v2()
    return {case.name: case.make(tf) for case in CASES}


def _signature(tf: Any, case: Case) -> Any:
    v1 = tf.compat.v1
    inputs = {name: v1.placeholder(spec.dtype, spec.shape, f"{case.name}_{name}") for name, spec in case.inputs.items()}
    result = _body(tf, case.name, *inputs.values())
    outputs = result if isinstance(result, dict) else {"y": result}
    return v1.saved_model.predict_signature_def(inputs, outputs)


def _body(tf: Any, name: str, x: Any, *others: Any) -> Any:
    v1 = tf.compat.v1
    bodies: Mapping[str, Callable[[], Any]] = {
        "reference": lambda: x * v1.get_variable("a", initializer=2.0, use_resource=False) + v1.constant(0.5),
        "resource": lambda: x * v1.get_variable("b", initializer=3.0, use_resource=True),
        "loop": lambda: v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [0, x])[1],
        "switch": lambda: v1.cond(others[0], lambda: x + 1, lambda: x - 1),
        "placeholder": lambda: x + 1,
        "int_variable": lambda: x + tf.cast(v1.get_variable("c", initializer=7, use_resource=False), tf.float32),
        "wide_variable": lambda: {
            "y": x + 1,
            "count": v1.get_variable("d", initializer=np.int64(2**40), use_resource=True).read_value(),
        },
    }
    return bodies[name]()


def _export_initialised(tf: Any, folder: Path) -> Mapping[str, Callable[..., Any]]:
    """Write a model whose variable is set when it is loaded, to another value than the file has."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder("float32", [None], "x")
        variable = v1.get_variable("a", initializer=2.0, use_resource=True)
        start = variable.assign(5.0).op
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": x + variable.read_value()})
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], {"initialised": signature}, main_op=start)
        builder.save()
    return {case.name: case.make(tf) for case in INITIALISED}


def _export_fed_inside(tf: Any, folder: Path) -> Mapping[str, Callable[..., Any]]:
    """Write a model whose signature feeds the result of an operation, not a placeholder."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        inside = tf.nn.relu(v1.placeholder("float32", [None], "x"))
        signature = v1.saved_model.predict_signature_def({"x": inside}, {"y": inside * 2})
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], {"inside": signature})
        builder.save()
    return {case.name: case.make(tf) for case in FED_INSIDE}


MODELS = (
    Model("tensorflow_1", CASES, _export),
    Model("initialised_at_load", INITIALISED, _export_initialised),
    Model("fed_inside", FED_INSIDE, _export_fed_inside),
)
