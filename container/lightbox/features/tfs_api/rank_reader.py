"""The ranks of the inputs in the body of a predict call, without reading their values.

TensorFlow Serving takes the rank of a list from its first elements, and refuses a list whose other elements differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from lightbox.model_runtime.wire.rest.base64_value import is_base64
from lightbox.model_runtime.wire.rest.json_document import load
from lightbox.model_runtime.wire.rest.json_inputs import signature_name
from lightbox.model_runtime.wire.rest.number_lists import NumberList, parse_around_lists, parsing_bytes

_S = rb"[ \n\r\t]*"
_NAME = _S + rb'"([^"\\]*)"' + _S
_HEAD = re.compile(
    rb"%b\{(?:%b\"signature_name\"%b:%b,)?%b\"(instances|inputs)\"%b:%b((?:\[%b)*)(?:\{%b:%b((?:\[%b)*)(\"?))?"
    % (_S, _S, _S, _NAME, _S, _S, _S, _S, _NAME, _S, _S)
)


class Ranks(NamedTuple):
    """A body's signature, "" if absent, and ranks by input; None is the only input."""

    signature_name: str
    by_name: Mapping[str | None, int]

    def covers(self, inputs: Collection[str]) -> bool:
        """Return whether this is the rank of the only one of ``inputs``; a second name may hide it."""
        return len(inputs) == 1 and all(name is None or name in inputs for name in self.by_name)

    def of(self, inputs: Collection[str]) -> dict[str, int]:
        """Return the ranks of those ``inputs`` that have one here."""
        if None in self.by_name and len(inputs) == 1:
            return dict.fromkeys(inputs, self.by_name[None])
        return {name: self.by_name[name] for name in inputs if name in self.by_name}


def head_ranks(body: bytes) -> Ranks | None:
    """Return the facts at the beginning of a body, with at most one input by name; None if not certain.

    For a repeated name the first value counts, so later text cannot change the facts. But the signature may come after
    the inputs.
    """
    found = _HEAD.match(body)
    if found is None:
        return None
    signature, form, outer, name, inner, text = found.groups()
    if name is None and body[found.end() : found.end() + 1] == b"{":  # for example, its first name has escapes
        return None
    # Rare letters first: searching one byte is far cheaper than searching a word.
    rare = body.find(b"_")
    named_later = rare >= 0 and body.find(b"signature_name", max(0, rare - 9)) >= 0
    if signature is None and (named_later or (b"\\" in body and b"\\u" in body)):
        return None
    rank = outer.count(b"[")
    if name == b"b64":
        if not text or inner:  # perhaps an input's name
            return None
    elif name is not None:
        if rank != (form == b"instances"):
            return None
        rank += inner.count(b"[")
    key = None if name in (None, b"b64") else name.decode("utf-8", "surrogateescape")
    return Ranks((signature or b"").decode("utf-8", "surrogateescape"), {key: rank})


def body_ranks(body: bytes, hold: Callable[[int], None] = lambda size: None) -> Ranks:
    """Return the facts of a whole body; ``hold`` is called with the most memory that reading takes, and may raise.

    Raises StatusError if the model server refuses its form.
    """
    parsed = parse_around_lists(body, load, hold=hold)
    if parsed is None:
        hold(3 * len(body) + parsing_bytes(body))
    document = load(body) if parsed is None else parsed.values
    name = signature_name(document)
    if "instances" not in document:
        return Ranks(name, _ranks(document["inputs"], 0) if "inputs" in document else {})
    instances = document["instances"]
    if isinstance(instances, NumberList):
        return Ranks(name, {None: instances.depth})
    return Ranks(name, _ranks(instances[0], 1) if isinstance(instances, list) and instances else {})


def _ranks(value: Any, outer: int) -> dict[str | None, int]:
    """Return the ranks of a value inside this many lists."""
    if isinstance(value, dict) and not is_base64(value):
        return {name: outer + _depth(item) for name, item in value.items()}
    return {None: outer + _depth(value)}


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth + (value.depth if isinstance(value, NumberList) else 0)
