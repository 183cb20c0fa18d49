"""Images inside JSON, as base64: ``{"b64": "..."}``, a plain string, or a data URI."""

from __future__ import annotations

import re
from binascii import Error as BadBase64
from binascii import a2b_base64
from typing import Any

from lightbox.codecs.json_tensors import is_named
from lightbox.errors import MalformedBody
from lightbox.images.decode import is_image
from lightbox.model_spec import SignatureSpec
from tfs_wire.rest import base64_value
from tfs_wire.status import StatusError

_DATA_URI = re.compile(r"data:[^,]{0,200};base64,")
_MAGIC_DIGITS = 44
"""Base64 digits of the 32 bytes that tell an image."""


def images_in_instances(instances: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``instances``, None when the first instance is no base64.

    An instance is a base64 value or an object that gives one to the model's only input. Raises
    MalformedBody for text that is no base64, and for a list that only begins with images.
    """
    if not isinstance(instances, list) or not instances:
        return None
    values = [_unnamed(instance, signature) for instance in instances]
    return _decoded(values) if _is_base64(values[0]) else None


def images_in_inputs(inputs: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``inputs``, one or a list, by name or not; None when they are none."""
    value = _unnamed(inputs, signature)
    return images_in_instances(value if isinstance(value, list) else [value], signature)


def all_images(values: list[Any]) -> bool:
    """Whether every value is a string of base64 that begins as an image does."""
    return bool(values) and all(isinstance(value, str) and _begins_as_image(value) for value in values)


def _unnamed(value: Any, signature: SignatureSpec) -> Any:
    """Return what an object gives to the model's only input, or the value itself."""
    (name,) = signature.inputs
    return value[name] if is_named(value) and value.keys() == {name} else value


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) or base64_value.is_base64(value)


def _decoded(values: list[Any]) -> list[bytes]:
    return [_decode(value, index) for index, value in enumerate(values)]


def _decode(value: Any, index: int) -> bytes:
    if not _is_base64(value):
        raise MalformedBody(f"image {index + 1}: expected base64 as the first image is, got another JSON value")
    text = value if isinstance(value, str) else value["b64"]
    prefix = _DATA_URI.match(text)
    try:
        return base64_value.decode_base64({"b64": text[prefix.end() :] if prefix else text})
    except StatusError:
        raise MalformedBody(f"image {index + 1}: the text is not valid base64") from None


def _begins_as_image(text: str) -> bool:
    prefix = _DATA_URI.match(text)
    start = prefix.end() if prefix else 0
    try:
        return is_image(a2b_base64(text[start : start + _MAGIC_DIGITS]))
    except (BadBase64, ValueError):
        return False
