"""The bodies of classify and regress: JSON objects to Examples, results to JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

from lightbox.model_runtime.wire.messages import example_pb2, input_pb2
from lightbox.model_runtime.wire.rest.base64_value import decode_base64, is_base64
from lightbox.model_runtime.wire.rest.json_document import pairs, type_name
from lightbox.model_runtime.wire.rest.predict_body import Step, format_error, signature_name
from lightbox.model_runtime.wire.status import StatusError, invalid

Feature = Any
"""``tensorflow.Feature``; its module is reached through ``example_pb2`` only."""

_KINDS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}
_INT64 = 1 << 63
_AT_ONCE = 1 << 12


class ExamplesBody(NamedTuple):
    """The content of a classify or regress call."""

    signature_name: str
    input: input_pb2.Input


def read_examples(document: Any, step: Step = lambda: None) -> ExamplesBody:
    """Return the Examples in ``{"examples": [...], "context": {...}}``; StatusError if malformed.

    ``step`` is called in between, and may raise.
    """
    name = signature_name(document)
    result = input_pb2.Input()
    context = document.get("context")
    if "context" in document:
        _fill_example(context, result.example_list_with_context.context, step)
    target = result.example_list_with_context if "context" in document else result.example_list
    for item in _example_list(document):
        _fill_example(item, target.examples.add(), step)
    return ExamplesBody(name, result)


def _example_list(document: dict[str, Any]) -> list[Any]:
    if "examples" not in document:
        raise format_error(document, "When method is classify, key 'examples' is expected and was not found")
    examples = document["examples"]
    if not isinstance(examples, list):
        raise format_error(document, "Expecting 'examples' value to be an list/array")
    if not examples:
        raise format_error(document, "'examples' value is an empty array")
    return examples


def _fill_example(value: Any, example: example_pb2.Example, step: Step) -> None:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {type_name(value)}")
    for name, content in pairs(value):
        feature = example.features.feature[name]
        feature.Clear()
        for index, item in enumerate(content if isinstance(content, list) else [content]):
            if index % _AT_ONCE == 0:
                step()
            _add_value(item, name, feature)


def _add_value(value: Any, name: str, feature: Feature) -> None:
    kind = _kind_of(value, name)
    present = feature.WhichOneof("kind")
    if present not in (None, kind):
        raise invalid(f"Unexpected element type in feature: {name} expecting type: {_KINDS[present]}")
    getattr(feature, kind).value.append(_converted(value, name))


def _kind_of(value: Any, name: str) -> str:
    if isinstance(value, str) or is_base64(value):
        return "bytes_list"
    if isinstance(value, float):
        return "float_list"
    if isinstance(value, int):
        return "int64_list"
    raise _unexpected(value, name)


def _unexpected(value: Any, name: str) -> StatusError:
    return invalid(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")


def _converted(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return decode_base64(value)
    if isinstance(value, int) and value >= _INT64:
        raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
    return int(value) if isinstance(value, bool) else value
