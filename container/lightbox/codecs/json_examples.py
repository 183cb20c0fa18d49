"""``{"examples": [...]}`` of classify and regress: tf.Examples for the only input of an ordinary predict.

As in TensorFlow Serving the graph decides whether that input takes strings: old signatures declare another dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lightbox.base.error_texts import shorten
from lightbox.base.errors import BadRequest, InputMismatch, MalformedBody, TooLarge
from lightbox.model.casting import string_tensor
from lightbox.model.spec import Array, Layout, Method, ModelCall, Prediction, SignatureSpec, TensorSpec
from lightbox.model_runtime.wire.dtypes import LARGEST_FLOAT
from lightbox.model_runtime.wire.messages import input_pb2
from lightbox.model_runtime.wire.rest.examples import read_examples
from lightbox.model_runtime.wire.status import StatusError

_OUTPUTS = {Method.CLASSIFY: ("classes", "scores"), Method.REGRESS: ("outputs",)}
_ECHO = 200
MAX_BYTES = 1 << 30
"""Largest size of all examples together, each with the shared context."""


def decode_examples(
    document: dict[str, Any], signature: SignatureSpec, method: Method, step: Callable[[], None]
) -> ModelCall:
    """Return serialized tf.Examples as the signature's one input, and the outputs that the method needs.

    The signature of the call declares this input as strings, whatever the model's signature says.

    Features are JSON strings, ``{"b64": ...}``, integers or floats, alone or in lists. ``context`` is merged into
    each example, whose own features win. ``step`` is called in between. Raises MalformedBody for invalid examples and
    BadRequest for a signature that cannot classify or regress.
    """
    taken, outputs = _plan(signature, method)
    try:
        request = read_examples(document, step).input
        _check_floats(document)
    except StatusError as error:
        raise MalformedBody(f"examples: {shorten(error.message, _ECHO)}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"examples: {shorten(str(error), _ECHO)}") from None
    asked = replace(signature, inputs={taken.name: taken})
    examples = _serialized(request)
    return ModelCall(asked, {taken.name: examples}, outputs, Layout.RESULTS, results=partial(_results, len(examples)))


def _results(examples: int, outputs: Mapping[str, Array]) -> Prediction:
    """Return classes and scores of [examples, n], or values of [examples], as in ``{"results": [...]}``.

    Raises BadRequest for outputs of other shapes or dtypes: the signature does not classify or regress.
    """
    if "outputs" in outputs:
        return Prediction({"outputs": _regressed(outputs["outputs"], examples)}, Layout.RESULTS, examples)
    _check_classes(outputs, examples)
    return Prediction(outputs, Layout.RESULTS, examples)


def _plan(signature: SignatureSpec, method: Method) -> tuple[TensorSpec, tuple[str, ...]]:
    """Return the input for the examples and the outputs with the results."""
    outputs = tuple(name for name in _OUTPUTS[method] if name in signature.outputs)
    inputs = list(signature.inputs.values())
    if len(inputs) != 1 or not outputs:
        raise BadRequest(
            f"tfs-method={method.value}: expected a signature with one input and the output "
            f"{' or '.join(_OUTPUTS[method])}; {signature.name!r} of the model {signature.model!r} takes "
            f"{', '.join(map(str, inputs))} and gives {', '.join(map(str, signature.outputs.values()))}"
        )
    return TensorSpec(inputs[0].name, "string", None), outputs


def _serialized(given: input_pb2.Input) -> Array:
    with_context = given.example_list_with_context
    context = with_context.context.SerializeToString() if given.HasField("example_list_with_context") else b""
    examples = list(with_context.examples or given.example_list.examples)
    if len(context) * len(examples) > MAX_BYTES:
        raise TooLarge(f"context: {len(context)} bytes for each of {len(examples)} examples is more than 1 GiB")
    return string_tensor(context + example.SerializeToString() for example in examples)


def _check_floats(document: dict[str, Any]) -> None:
    """Refuse floats beyond float32, which would become infinity."""
    for example in (document.get("context", {}), *document["examples"]):
        for name, content in example.items():
            for value in content if isinstance(content, list) else [content]:
                if isinstance(value, float) and math.isfinite(value) and abs(value) > LARGEST_FLOAT["float32"]:
                    raise InputMismatch(f"examples: feature {shorten(name, _ECHO)}: {value} is beyond float32")


def _regressed(values: Array, examples: int) -> Array:
    if values.shape not in ((examples,), (examples, 1)) or values.dtype != np.float32:
        raise _wrong_output("outputs", f"float32 of shape [{examples}] or [{examples},1]", values)
    return values.reshape(-1)


def _check_classes(outputs: Mapping[str, Array], examples: int) -> None:
    same = len({array.shape for array in outputs.values()}) == 1
    for name, array in outputs.items():
        right = array.dtype.hasobject if name == "classes" else array.dtype == np.float32
        if not (same and right and array.ndim == 2 and array.shape[0] == examples):
            raise _wrong_output(name, f"{'string' if name == 'classes' else 'float32'} of shape [{examples},n]", array)


def _wrong_output(name: str, wanted: str, array: Array) -> BadRequest:
    return BadRequest(f"the model's output {name}: expected {wanted}, got {array.dtype} of {list(array.shape)}")
