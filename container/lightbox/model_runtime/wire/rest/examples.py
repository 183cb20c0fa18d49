"""The bodies of classify and regress: JSON objects to Examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lightbox.model_runtime.wire.messages import example_pb2, input_pb2
from lightbox.model_runtime.wire.rest.base64_value import as_bytes
from lightbox.model_runtime.wire.rest.json_document import Members, pairs, shown
from lightbox.model_runtime.wire.rest.json_inputs import AT_ONCE, signature_name
from lightbox.model_runtime.wire.rest.number_lists import Step
from lightbox.model_runtime.wire.status import invalid

_KINDS: dict[str, set[type]] = {
    "float_list": {float},
    "int64_list": {int, bool},
    "bytes_list": {str, dict, Members},
}
"""The types of parsed JSON for each kind of a ``tensorflow.Feature``."""
_CONVERTED: dict[str, Callable[[Any], Any]] = {"float_list": float, "int64_list": int, "bytes_list": as_bytes}


class ExamplesBody(NamedTuple):
    """The content of a classify or regress call."""

    signature_name: str
    input: input_pb2.Input


def read_examples(document: Any, step: Step = lambda: None) -> ExamplesBody:
    """Return the Examples in ``{"examples": [...], "context": {...}}``; StatusError if malformed.

    Features are strings, ``{"b64": ...}``, integers or floats, alone or in lists of one kind. Of a feature given twice
    the last one counts. ``step`` is called in between, and may raise.
    """
    name = signature_name(document)
    examples = document.get("examples")
    if not (isinstance(examples, list) and examples):
        raise invalid("examples: expected a list of at least one")
    result = input_pb2.Input()
    if "context" in document:
        _fill(document["context"], result.example_list_with_context.context, step)
    target = result.example_list_with_context if "context" in document else result.example_list
    for item in examples:
        _fill(item, target.examples.add(), step)
    return ExamplesBody(name, result)


def _fill(value: Any, example: example_pb2.Example, step: Step) -> None:
    if not isinstance(value, dict):
        raise invalid(f"expected an object of features, got {shown(value)}")
    for name, content in pairs(value):
        feature, values = example.features.feature[name], content if isinstance(content, list) else [content]
        feature.Clear()
        types = set(map(type, values))
        kind = next((kind for kind, accepted in _KINDS.items() if types <= accepted), None)
        if kind is None:
            got = ", ".join(sorted({shown(value) for value in (values[0], values[-1])}))
            raise invalid(f"feature {name}: expected strings, integers or floats alone, got {got}")
        for start in range(0, len(values), AT_ONCE):
            step()
            part = values[start : start + AT_ONCE]
            if kind == "int64_list" and max(part) >= 1 << 63:
                raise invalid(f"feature {name}: {max(part)} is beyond int64")
            getattr(feature, kind).value.extend(map(_CONVERTED[kind], part))
