"""JSON's values as the inputs of a signature, and as encoded images.

The rules are those of ``json_inputs``, with two exceptions: 8- and 16-bit integers outside their dtype are refused
instead of wrapped around, and float16 and uint16 are accepted.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from typing import Any

from lightbox.base.error_texts import shorten
from lightbox.base.errors import InputMismatch, MalformedBody
from lightbox.images.decode import is_image
from lightbox.model.casting import cast, read_as
from lightbox.model.spec import ONE_INPUT, Array, SignatureSpec
from lightbox.model_runtime.wire.rest.base64_value import decode_base64, is_base64
from lightbox.model_runtime.wire.rest.json_inputs import is_named, read_inputs
from lightbox.model_runtime.wire.rest.number_lists import Step
from lightbox.model_runtime.wire.status import StatusError

_ECHO = 200
"""Longest quotation of the body in an error, in characters."""
_GOT_A_PICTURE = re.compile('got (?:an object|")')
"""The end of a message about base64 in place of a number."""
_DATA_URI = re.compile(r"data:[^,]{0,200};base64,")
_MAGIC_DIGITS = 44
"""Base64 digits of the 32 bytes that identify an image."""


def read(form: str, payload: Any, signature: SignatureSpec, step: Step = lambda: None) -> dict[str, Array]:
    """Return the inputs of ``{"instances": [...]}`` or ``{"inputs": ...}``: values, or objects with one for each input.

    ``step`` is called in between. Raises InputMismatch for values that do not fit their tensor's dtype or shape.
    """
    specs = signature.inputs
    try:
        found = read_inputs(payload, form == "instances", {name: read_as(specs[name]) for name in specs}, step)
    except StatusError as error:
        hint = f"; {ONE_INPUT}" if len(specs) > 1 and _GOT_A_PICTURE.search(error.message) else ""
        raise InputMismatch(shorten(error.message, _ECHO) + hint) from None
    return {name: found[name] if specs[name].is_string else cast(found[name], specs[name]) for name in specs}


def encoded_images(form: str, payload: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``instances`` or ``inputs``, None when the first value is not base64.

    Each is a base64 value, or an object with one for the model's only input; ``inputs`` may be one or a list, by
    name or not. Raises MalformedBody for invalid base64, and for lists of which only the first values are images.
    """
    whole = payload if form == "instances" else _unnamed(payload, signature)
    values = [_unnamed(value, signature) for value in (whole if isinstance(whole, list) else [whole])]
    if not values or not _is_base64(values[0]):
        return None
    return [_decoded(value, index) for index, value in enumerate(values)]


def all_images(values: list[Any]) -> bool:
    """Return whether every value is a base64 string that begins like an image."""
    return bool(values) and all(isinstance(value, str) and _begins_as_image(value) for value in values)


def _unnamed(value: Any, signature: SignatureSpec) -> Any:
    """Return an object's value for the model's only input, or the value itself."""
    (name,) = signature.inputs
    return value[name] if is_named(value) and value.keys() == {name} else value


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) or is_base64(value)


def _decoded(value: Any, index: int) -> bytes:
    if not _is_base64(value):
        raise MalformedBody(f"image {index + 1}: expected base64 like the first image, got another JSON value")
    text = value if isinstance(value, str) else value["b64"]
    try:
        return decode_base64({"b64": text[_start(text) :]})
    except StatusError:
        raise MalformedBody(f"image {index + 1}: the text is not valid base64") from None


def _begins_as_image(text: str) -> bool:
    start = _start(text)
    try:
        return is_image(a2b_base64(text[start : start + _MAGIC_DIGITS]))
    except ValueError:
        return False


def _start(text: str) -> int:
    """Return where base64 begins: after the head of a data URI, if there is one."""
    head = _DATA_URI.match(text)
    return head.end() if head else 0
