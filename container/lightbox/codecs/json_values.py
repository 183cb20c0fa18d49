"""JSON text with one value or many, one after another on one line or on many."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

from lightbox.errors import MalformedBody, TooLarge

_SPACE = re.compile(r"[ \t\n\r]*")
MAX_VALUES = 1_000_000
"""Values one after another, each of which is an object in memory; a list of numbers costs far less."""
_LONGEST_INT = 20
"""Characters of the longest 64-bit integer; longer ones are read as floats."""


def parsing_bytes(text: bytes) -> int:
    """Return how much memory it may take at most to parse a text and to make arrays of it, by its structure.

    Measured with orjson: 16 bytes for each value while it parses, 8 for its place in a list, 24 for a float, 72 for a
    list and 184 for an object; arrays are made by way of flat lists. Python's own parser needs no more.
    """
    return (
        4 * len(text)
        + 48 * text.count(b",")
        + 88 * text.count(b"[")
        + 200 * text.count(b"{")
        + 60 * text.count(b'"')
        + 32 * text.count(b"\n")
    )


def parse_values(text: bytes) -> list[Any]:
    """Return the JSON values in UTF-8 ``text``; NaN, Infinity and -Infinity are numbers.

    Raises MalformedBody for an empty body, for what is no JSON, for numbers beyond a double (1e400) and for
    nesting that is too deep to be a tensor, TooLarge for more than MAX_VALUES values one after another.
    """
    if not text.strip():
        raise MalformedBody("the body is empty; JSON was expected")
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    if text.count(b"\n") > MAX_VALUES:
        raise _too_many()
    lines = [line for line in text.split(b"\n") if line.strip()]
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError:
        return _parse_tolerantly(text)


def _parse_tolerantly(text: bytes) -> list[Any]:
    """Read what orjson does not: several values on a line or one over several lines, NaN, Infinity."""
    try:
        return _scan(text.decode())
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the JSON is not valid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise MalformedBody(f"the JSON cannot be read: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MalformedBody("the JSON is nested too deep") from None
    except ValueError as error:
        raise MalformedBody(f"the JSON cannot be read: {error}") from None


def _scan(text: str) -> list[Any]:
    values: list[Any] = []
    at = _skip_space(text, 0)
    while at < len(text):
        value, end = _DECODER.raw_decode(text, at)
        values.append(value)
        if len(values) > MAX_VALUES:
            raise _too_many()
        at = _skip_space(text, end)
        # 1-2 is not two numbers; brackets and quotes need no space between them.
        if at == end < len(text) and text[end - 1] not in '}]"' and text[end] not in '{["':
            raise json.JSONDecodeError("Expecting white space between two values", text, end)
    if "\\u" in text:
        _check_surrogates(values)
    return values


def _too_many() -> TooLarge:
    return TooLarge(f"the JSON has more than {MAX_VALUES:,} values or lines one after another; send a list")


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _check_surrogates(values: list[Any]) -> None:
    """Half of a surrogate pair is no character: it could be neither sent nor told of in an answer."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large for a double")
    return number


def _int(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INT else _finite(text)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_int)
