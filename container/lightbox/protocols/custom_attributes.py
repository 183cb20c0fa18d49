"""SageMaker's headers, and what AWS's TensorFlow Serving container reads from its custom attributes."""

from __future__ import annotations

from lightbox.codecs.base import Method
from lightbox.errors import BadRequest

CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


def parse_custom_attributes(header: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a comma-separated header; what is no pair is left to others."""
    pairs = (part.partition("=") for part in header.split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip()}


def parse_version(text: str | None) -> int | None:
    """Return the number in ``tfs-model-version``, None without one; raise BadRequest for what is none."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"tfs-model-version: expected a whole number, got {text!r}")
    return int(text)


def parse_method(text: str | None) -> Method:
    """Return what ``tfs-method`` asks for; raise BadRequest for what is none."""
    try:
        return Method(text) if text else Method.PREDICT
    except ValueError:
        raise BadRequest(f"tfs-method: expected predict, classify or regress, got {text!r}") from None
