"""What routes of HTTP share: bodies as they came and as they go, and SageMaker's custom attributes."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from flask import g, request
from werkzeug.exceptions import ClientDisconnected

from lightbox.call import CROP, OUTPUTS, meant
from lightbox.codecs.base import Method
from lightbox.codecs.media_type import decoded_body, parse_content_type
from lightbox.errors import BadRequest, LightboxError
from lightbox.images.picture import Crop
from lightbox.memory_budget import MemoryBudget
from lightbox.protocols.edge import EXCHANGE, Exchange, pass_over_body
from lightbox.request_context import RequestContext


def enter() -> None:
    """Before Flask's view: let it find the request's context in ``g``, and note which route it is."""
    exchange: Exchange = request.environ[EXCHANGE]
    g.context = exchange.context
    if request.url_rule is not None:
        exchange.route = request.url_rule.rule


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)


def is_triton_type(content_type: str) -> bool:
    """Tell whether a Content-Type is TRITON_TYPE."""
    begins = content_type[: len(TRITON_TYPE)].lower() == TRITON_TYPE
    return begins and parse_content_type(content_type).name == TRITON_TYPE


@contextmanager
def received_body(memory: MemoryBudget, max_mb: int, context: RequestContext) -> Iterator[bytes]:
    """Give the body as it was before its Content-Encoding; ``max_mb`` bounds it in MiB.

    What the request holds comes back at the end. Raises what ``decoded_body`` and ``Share.hold`` raise; nothing of the
    body is kept then.
    """
    with memory.share() as context.memory:
        length = request.content_length or 0
        context.memory.weigh(length)
        try:
            context.memory.hold(2 * length)
        except LightboxError:
            pass_over_body(request.environ)
            raise
        with context.stage("receive"):
            encoding = request.headers.get("Content-Encoding", "")
            body = decoded_body(_whole_body(), encoding, max_mb, context)
        yield body


def _whole_body() -> bytes:
    """Return the current request's body. Raises ClientDisconnected where it ends early."""
    length = request.content_length
    if length is None or length > (request.max_content_length or length):  # chunked, or an error
        return request.get_data(cache=False)
    body: bytes = request.environ["wsgi.input"].read(length)
    if len(body) < length:
        raise ClientDisconnected
    return body


log = logging.getLogger("lightbox")

TRITON_TYPE = "application/vnd.sagemaker-triton.binary+json"
"""A body of the Open Inference Protocol on SageMaker's own route: JSON, and tensors behind it."""
CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


# A run is looked at once, from its first letter: the time is linear in the header's length.
_NAME = re.compile(r"(?<![a-z-])([a-z-]++)=")
_NUMBER = re.compile(r"\s*[+-]?[0-9.]++\s*")
_CROP = re.compile(r"([0-9]{1,6}),([0-9]{1,6}),([0-9]{1,6}),([0-9]{1,6})")


def parse_custom_attributes(header: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a comma-separated header; of several of one name, the last.

    As in AWS's container, a pair whose name begins with ``tfs-`` is found anywhere, behind ``trace=1;`` or a blank
    say, and its value goes on until the next comma; without a value it is none. What is no pair is left to others.
    """
    attributes: dict[str, str] = {}
    parts = header.split(",")
    for place, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if equals and (name := name.strip()) and (value.strip() or not name.startswith("tfs-")):
            attributes[name] = value.strip()
        attributes |= _tfs_pair(part)
        for name, is_more in _LISTS.items():
            if name in attributes and f"{name}=" in part:  # its value has commas
                rest = itertools.takewhile(is_more, parts[place + 1 :])
                attributes[name] = ",".join([attributes[name], *map(str.strip, rest)])
    return attributes


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _is_name(text: str) -> bool:
    return bool(text.strip()) and "=" not in text


_LISTS: dict[str, Callable[[str], bool]] = {CROP: _is_number, OUTPUTS: _is_name}
"""Pairs whose values go on behind a comma, and with what."""


def _tfs_pair(part: str) -> dict[str, str]:
    """Return the first ``tfs-`` pair between two commas, if there is one."""
    for found in _NAME.finditer(part):
        _, prefix, rest = found[1].partition("tfs-")
        if prefix and rest and (value := part[found.end() :].strip()):
            return {prefix + rest: value}
    return {}


def check_query() -> None:
    """Raise BadRequest where the current request, a prediction, has a query parameter: nothing reads one."""
    for name in request.args if request.query_string else ():
        close = meant(name)
        hint = f"; the header {CUSTOM_ATTRIBUTES} chooses: {close}=VALUE" if close else ""
        raise BadRequest(f"query parameter {name[:100]!r}: expected none, as nothing reads it{hint}")


def parse_version(text: str | None) -> int | None:
    """Return the number in ``tfs-model-version``, None without one; raise BadRequest for what is none."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"tfs-model-version: expected a whole number, got {text!r}")
    return int(text)


def parse_crop(text: str | None) -> Crop | None:
    """Return the part of an image that ``tfs-crop`` names, None without one; raise BadRequest for what is none."""
    if not text:
        return None
    match = _CROP.fullmatch(text)
    if match is None:
        raise BadRequest(f"tfs-crop: expected x,y,width,height in whole pixels, such as 0,0,640,480; got {text!r}")
    return Crop(*map(int, match.groups()))


def parse_method(text: str | None) -> Method:
    """Return what ``tfs-method`` asks for; raise BadRequest for what is none."""
    try:
        return Method(text) if text else Method.PREDICT
    except ValueError:
        raise BadRequest(f"tfs-method: expected predict, classify or regress, got {text!r}") from None
