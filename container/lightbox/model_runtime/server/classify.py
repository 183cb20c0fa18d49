"""Classify and Regress: serialized Examples in, labels with scores or values out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.server.predict import DEFAULT_SIGNATURE, SignatureDef
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.messages import classification_pb2, input_pb2, regression_pb2
from lightbox.model_runtime.wire.status import invalid

INPUTS, CLASSES, SCORES, OUTPUTS = "inputs", "classes", "scores", "outputs"


class Plan(NamedTuple):
    """The input tensor for the Examples, and the output tensors by alias."""

    feed: str
    fetches: dict[str, str]


Result: TypeAlias = classification_pb2.ClassificationResult | regression_pb2.RegressionResult


class Kind(NamedTuple):
    """The differences between Classify and Regress."""

    call: str
    name: str
    method: str
    """The signatures' method name."""
    plan: Callable[[SignatureDef], Plan]
    """Checks a signature; raises tensorflow_model_server's error."""
    result: Callable[[dict[str, Array], int], Result]
    """Makes the result from outputs by alias, for a number of Examples."""


def find_signature(session: Runner, name: str) -> SignatureDef:
    """Return the signature that a call names, or the default one."""
    wanted = name or DEFAULT_SIGNATURE
    if wanted not in session.signatures:
        raise invalid(f"No signature was found with the name: {wanted}")
    return session.signatures[wanted]


def plan_classification(signature: SignatureDef) -> Plan:
    """Check that a signature classifies; raise the real server's error if not."""
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if len(signature.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    feed = _feed(signature, "classification")
    fetches = {name: signature.outputs[name].name for name in (CLASSES, SCORES) if name in signature.outputs}
    if not fetches:
        text = 'Expected classification signature outputs to contain at least one of "classes" or "scores".'
        raise invalid(f"{text} Signature was: {signature}")
    return Plan(feed, fetches)


def plan_regression(signature: SignatureDef) -> Plan:
    """Check that a signature regresses; raise the real server's error if not."""
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    feed = _feed(signature, "regression")
    if OUTPUTS not in signature.outputs:
        raise invalid(f"No regression outputs found in SignatureDef: {signature}")
    return Plan(feed, {OUTPUTS: signature.outputs[OUTPUTS].name})


def _feed(signature: SignatureDef, kind: str) -> str:
    if INPUTS not in signature.inputs:
        raise invalid(f"No {kind} inputs found in SignatureDef: {signature}")
    return str(signature.inputs[INPUTS].name)


def serialized_examples(source: input_pb2.Input) -> Array:
    """Return the Examples as a string tensor, each merged with the context, over which it has precedence."""
    kind = source.WhichOneof("kind")
    examples, context = [], b""
    if kind == "example_list":
        examples = list(source.example_list.examples)
    elif kind == "example_list_with_context":
        examples = list(source.example_list_with_context.examples)
        context = source.example_list_with_context.context.SerializeToString()
    if not examples:
        raise invalid("Input is empty.")
    strings = np.empty(len(examples), dtype=object)
    strings[:] = [context + example.SerializeToString() for example in examples]
    return strings


def answer(
    kind: Kind, session: Runner, signature: SignatureDef, given: input_pb2.Input, options: bytes
) -> tuple[Result, int]:
    """Answer a call of this kind; return the result and the number of its Examples."""
    plan = kind.plan(signature)
    examples = serialized_examples(given)
    outputs = session.run({plan.feed: examples}, list(plan.fetches.values()), options)
    return kind.result(dict(zip(plan.fetches, outputs, strict=True)), len(examples)), len(examples)


def _type_text(array: Array) -> str:
    return f"DT_{dtypes.name_of(dtypes.number_of(array.dtype)).upper()}"


def _check_classes(array: Array, name: str, number: int, examples: int) -> None:
    if array.ndim != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {dtypes.shape_text(array.shape)}")
    if dtypes.number_of(array.dtype) != number:
        kind = {dtypes.DT_STRING: "DT_STRING", dtypes.DT_FLOAT: "DT_FLOAT"}[number]
        raise invalid(f"Expected {name} Tensor of {kind}. Got: {_type_text(array)}")
    if array.shape[0] != examples:
        raise invalid(f"Expected {name} output batch size of {examples}. Got: {array.shape[0]}")


def to_classifications(outputs: dict[str, Array], examples: int) -> classification_pb2.ClassificationResult:
    """Return labels with scores for each Example; either may be missing from the model."""
    classes, scores = outputs.get(CLASSES), outputs.get(SCORES)
    if classes is not None:
        _check_classes(classes, CLASSES, dtypes.DT_STRING, examples)
    if scores is not None:
        _check_classes(scores, SCORES, dtypes.DT_FLOAT, examples)
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        text = f"Got {classes.shape[1]} vs. {scores.shape[1]}"
        raise invalid(f"Tensors class and score should match in dim_size(1). {text}")
    result = classification_pb2.ClassificationResult()
    for index in range(examples):
        labels = None if classes is None else classes[index].tolist()
        values = None if scores is None else scores[index].tolist()
        item = result.classifications.add()
        for column in range(len(labels if labels is not None else values or [])):
            label = labels[column].decode("utf-8", "replace") if labels is not None else ""
            item.classes.add(label=label, score=values[column] if values is not None else 0.0)
    return result


def to_regressions(outputs: dict[str, Array], examples: int) -> regression_pb2.RegressionResult:
    """Return one value for each Example from a tensor of shape [batch] or [batch, 1]."""
    array = outputs[OUTPUTS]
    if array.ndim != 1 and (array.ndim != 2 or array.shape[1] != 1):
        text = f"[batch_size] or [batch_size, 1] but got {dtypes.shape_text(array.shape)}"
        raise invalid(f"Expected output Tensor shape to be either {text}")
    if array.shape[0] != examples:
        raise invalid(f"Input batch size did not match output batch size: {examples} vs. {array.shape[0]}")
    if dtypes.number_of(array.dtype) != dtypes.DT_FLOAT:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {_type_text(array)}")
    result = regression_pb2.RegressionResult()
    for value in array.reshape(-1).tolist():
        result.regressions.add(value=value)
    return result


CLASSIFY = Kind("Classify", "classification", "tensorflow/serving/classify", plan_classification, to_classifications)
REGRESS = Kind("Regress", "regression", "tensorflow/serving/regress", plan_regression, to_regressions)
