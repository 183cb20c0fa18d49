"""application/json, jsonlines and jsons: the forms of TensorFlow Serving's REST API, and plain JSON.

An object with ``instances``, ``inputs`` or ``examples`` has TensorFlow Serving's meaning. Any other JSON becomes
instances, one value or several one after another. A single bare list is the list of instances, unless it lacks
only the batch dimension of the model's one input: then it is one instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from lightbox.base.errors import BadRequest, InputMismatch, LightboxError, MalformedBody
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import Parsed, Reader
from lightbox.codecs.json_examples import decode_examples
from lightbox.codecs.json_parsing import parse_around_lists, parse_values
from lightbox.codecs.json_tensors import all_images, encoded_images, read
from lightbox.codecs.media_type import ContentType, as_utf8
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Layout, Method, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.wire.rest.json_inputs import is_named
from lightbox.model_runtime.wire.rest.number_lists import NumberList, PartlyParsed, RowList, parsing_bytes
from lightbox.openapi.schemas import TEXT, Schema, ref

if TYPE_CHECKING:
    from lightbox.openapi.models import DescribedModel

_FORMS = ("instances", "inputs", "examples")
_LAYOUTS = {"instances": Layout.INSTANCES, "inputs": Layout.COLUMNS}


@dataclass(frozen=True)
class _Body:
    """A parsed body: a form of a document and its payload, or plain values one after another as instances.

    ``partial`` is the text without its long lists, if the payload is made from it.
    """

    text: bytes
    form: str
    payload: Any
    is_plain: bool
    document: dict[str, Any]
    partial: PartlyParsed | None = None


class _JsonReader(Reader):
    """Reads any JSON, one value or several one after another."""

    reads_examples: ClassVar[bool] = True

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        with context.stage("decode"):
            text = as_utf8(body, content_type)
            parsed = _parse_partly(text, method, context) or _whole_body(text, method, context)

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            with context.stage("decode"):
                call = _call_from_lists(parsed, signature, context)
                whole = _whole_body(text, method, context) if call is None and parsed.partial else parsed
                if method is not Method.PREDICT:
                    document = {"examples": _as_examples(whole.payload)} if whole.is_plain else whole.document
                    return decode_examples(document, signature, method, context.check)
            return call or self._predict(whole, signature, options, context)

        return Parsed(decode, parsed.document.get("signature_name") or None)

    def _predict(
        self, body: _Body, signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> ModelCall:
        with context.stage("decode"):
            payload = _as_instances(body.payload, signature) if body.is_plain else body.payload
            images = _images(body, payload, signature)
        if images is not None:
            return replace(self._images.decode(images, signature, options, context), layout=_LAYOUTS[body.form])
        with context.stage("decode"):
            inputs = read(body.form, payload, signature, context.check)
            self._images.check_among(inputs.values(), context, or_texts=True)
            return ModelCall(signature, inputs, layout=_LAYOUTS[body.form])


class JsonReader(_JsonReader):
    """Any JSON, in the forms of TensorFlow Serving's REST API and others."""

    media_types: ClassVar[tuple[str, ...]] = ("application/json",)

    @override
    def components(self, models: Sequence[DescribedModel]) -> dict[str, Schema]:
        from lightbox.codecs.json_schemas import SHARED, request_body

        return SHARED | {f"{model.name}.request": request_body(model) for model in models}

    @override
    def request_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        return [ref(f"{model.name}.request") for model in models]

    @override
    def example(self, model: DescribedModel) -> Any:
        from lightbox.codecs.json_schemas import example

        return None if model.default is None else example(model.default)


class JsonLinesReader(_JsonReader):
    """JSON values one after another."""

    media_types: ClassVar[tuple[str, ...]] = ("application/jsonlines", "application/jsons")
    synonyms: ClassVar[tuple[str, ...]] = (
        "application/jsonl",
        "application/x-jsonlines",
        "application/ndjson",
        "application/x-ndjson",
    )
    schema: ClassVar[Schema] = TEXT


def _whole_body(text: bytes, method: Method, context: RequestContext) -> _Body:
    """Read the text as Python's objects."""
    context.memory.hold(len(text) + parsing_bytes(text), "the JSON")
    parsed = _body_form(parse_values(text), text, method)
    context.check()
    return parsed


def _parse_partly(text: bytes, method: Method, context: RequestContext) -> _Body | None:
    """Parse a text except for its long lists of numbers; None if it has other long parts."""
    partial = parse_around_lists(text, context) if method is Method.PREDICT else None
    if partial is None:
        return None
    try:
        parsed = _body_form(partial.values, text, method)
    except LightboxError:
        return None
    return replace(parsed, partial=partial)


def _body_form(values: Any, text: bytes, method: Method) -> _Body:
    document = values[0] if isinstance(values, list) and len(values) == 1 and isinstance(values[0], dict) else {}
    given = [form for form in _FORMS if form in document]
    if not given:
        return _Body(text, "instances", values, True, {})
    _check(document, given, method)
    return _Body(text, given[0], document[given[0]], False, document)


def _call_from_lists(body: _Body, signature: SignatureSpec, context: RequestContext) -> ModelCall | None:
    """Return the call if all inputs are numbers, and all long lists arrays of them."""
    if body.partial is None or any(spec.is_string for spec in signature.inputs.values()):
        return None
    payload = _as_instances(body.payload, signature) if body.is_plain else body.payload
    with suppress(InputMismatch):
        inputs = read(body.form, payload, signature, context.check)
        if body.partial.all_used:
            return ModelCall(signature, inputs, layout=_LAYOUTS[body.form])
    return None


def _check(document: dict[str, Any], given: list[str], method: Method) -> None:
    """Raise short errors where later ones would quote the whole body."""
    (form, *others) = given
    if others:
        raise MalformedBody(f"JSON: expected one of instances, inputs and examples, got {' and '.join(given)}")
    if not isinstance(document.get("signature_name", ""), str):
        raise MalformedBody("signature_name: expected a string")
    if form != "inputs" and not (isinstance(document[form], list | NumberList | RowList) and document[form]):
        raise MalformedBody(f"{form}: expected a list of at least one")
    if (form == "examples") != (method is not Method.PREDICT):
        raise BadRequest(
            f"{form}: the method is {method.value}; predict takes instances or inputs, "
            "tfs-method=classify and tfs-method=regress take examples"
        )


def _images(body: _Body, payload: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the images to decode here, or None.

    For a model of pixels every text is an image. For a model of strings texts stay texts, except for bare values that
    are all images.
    """
    wanted = signature.image
    if wanted is None or (wanted.encoded and not (body.is_plain and all_images(payload))):
        return None
    return encoded_images(body.form, payload, signature)


def _as_examples(values: list[Any]) -> list[Any]:
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _as_instances(values: Any, signature: SignatureSpec) -> Any:
    """Return bare values as a list of instances."""
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], list | NumberList | RowList):
        return values
    return values if _is_one_instance(values[0], signature) else values[0]


def _is_one_instance(value: Any, signature: SignatureSpec) -> bool:
    depth, leaf = _nesting(value)
    if len(signature.inputs) != 1 or is_named(leaf) or isinstance(leaf, RowList):
        return False
    (spec,) = signature.inputs.values()
    return depth == _rank(spec) - 1


def _rank(spec: TensorSpec) -> int:
    """Return a tensor's rank; for an unknown one, as in AWS's container, a flat list is one instance."""
    return 2 if spec.shape is None else len(spec.shape)


def _nesting(value: Any) -> tuple[int, Any]:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth + (value.depth if isinstance(value, NumberList) else 0), value
