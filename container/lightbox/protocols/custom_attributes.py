"""SageMaker's headers, and what AWS's TensorFlow Serving container reads from its custom attributes."""

from __future__ import annotations

import re

from lightbox.codecs.base import Method
from lightbox.errors import BadRequest

CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


# A run is looked at once, from its first letter: the time is linear in the header's length.
_NAME = re.compile(r"(?<![a-z-])([a-z-]++)=")


def parse_custom_attributes(header: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a comma-separated header; of several of one name, the last.

    As in AWS's container, a pair whose name begins with ``tfs-`` is found anywhere, behind ``trace=1;`` or a blank
    say, and its value goes on until the next comma; without a value it is none. What is no pair is left to others.
    """
    attributes: dict[str, str] = {}
    for part in header.split(","):
        name, equals, value = part.partition("=")
        if equals and (name := name.strip()) and (value.strip() or not name.startswith("tfs-")):
            attributes[name] = value.strip()
        attributes |= _tfs_pair(part)
    return attributes


def _tfs_pair(part: str) -> dict[str, str]:
    """Return the first ``tfs-`` pair between two commas, if there is one."""
    for found in _NAME.finditer(part):
        _, prefix, rest = found[1].partition("tfs-")
        if prefix and rest and (value := part[found.end() :].strip()):
            return {prefix + rest: value}
    return {}


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
