"""Holds requests to the limits in botocore's model of an API; botocore itself checks types, names and minima only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.model import Shape


def beyond(value: Any, shape: Shape, where: str = "") -> Iterator[str]:
    """Yield a sentence for each part of a request that is larger than the model allows or not of its pattern.

    Lists of names (instance types, regions) are left to the service: it knows newer ones than an installed botocore.
    """
    if shape.type_name == "structure":
        for name, part in value.items():
            yield from beyond(part, shape.members[name], f"{where}.{name}".strip("."))
    elif shape.type_name == "list":
        for number, part in enumerate(value):
            yield from beyond(part, shape.member, f"{where}[{number}]")
    elif shape.type_name == "map":
        for name, part in value.items():
            yield from beyond(name, shape.key, f"a name in {where}")
            yield from beyond(part, shape.value, f"{where}.{name}")
    elif shape.type_name == "string":
        yield from _text(value, shape, where)
    elif shape.type_name in {"integer", "long", "float", "double"} and value > shape.metadata.get("max", value):
        yield f"{where} is {value}, and {shape.metadata['max']} is the most"


def _text(value: str, shape: Shape, where: str) -> Iterator[str]:
    if len(value) > shape.metadata.get("max", len(value)):
        yield f"{where} has {len(value)} characters, and {shape.metadata['max']} is the most"
    pattern = _compiled(shape.metadata.get("pattern", ""))
    if pattern is not None and not pattern.fullmatch(value):
        yield f"{where} is {value!r}, which does not match {pattern.pattern}"


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern; None for one that Java alone understands: tags and policies have such."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None
