"""Parses a request's JSON text, and formats values as in TensorFlow Serving's error texts.

orjson parses the text. RapidJSON's extensions, and the errors, are left to the standard library.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import orjson

from lightbox.model_runtime.wire.status import StatusError, invalid

_INDENT = "    "
_SPACE = " \n\r\t"
_STRING_OR_INF = re.compile(r'"(?:[^"\\]|\\.)*+"?|Inf(?![a-z])', re.DOTALL)
_LONE_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_LONGEST_INT = 20
_INT64 = 1 << 63


class Members(dict[str, Any]):
    """An object; the first value of a repeated name counts, and ``pairs`` has all of them."""

    def __init__(self, found: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.pairs = found
        for name, value in found:
            self.setdefault(name, value)


def pairs(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return all members of an object in the order of the text."""
    return value.pairs if isinstance(value, Members) else list(value.items())


# ------------------------------------------------------------------- reading


def load(body: bytes | bytearray) -> Any:
    """Return the first document in ``body``; StatusError "JSON Parse error: ... at offset: N" if it is malformed.

    Accepted beyond JSON, as by RapidJSON: NaN, Inf and Infinity, text after the document, a byte order mark, strings
    that are not UTF-8 (their bytes become lone surrogates, "surrogateescape"), repeated names (``Members``).
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _load_tolerantly(bytes(body))
    if body.count(b'"') == 2 * _count_strings(document):
        return document
    # An escaped quote, or a repeated name that orjson has dropped.
    return _load_tolerantly(bytes(body))


def _count_strings(document: Any) -> int:
    """Return a lower bound of the names and strings: a list that begins with a number counts as numbers."""
    count, pending = 0, [document]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            count += 1
        elif isinstance(value, dict):
            count += len(value)
            pending.extend(value.values())
        elif isinstance(value, list) and isinstance(_first(value), (str, dict)):
            pending.extend(value)
    return count


def _first(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _load_tolerantly(body: bytes) -> Any:
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lone = _LONE_SURROGATE.search(text) if "\\u" in text else None
    if lone is not None:
        _refuse("The surrogate pair in string is invalid.", text[: lone.start()])
    if "Inf" in text:
        text = _STRING_OR_INF.sub(lambda found: "Infinity" if found[0] == "Inf" else found[0], text)
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        return _DECODER.raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg}.", text[: error.pos])
    except RecursionError:
        raise _too_deep() from None
    except OverflowError as error:
        number = str(error)
        _refuse("Number too big to be stored in double.", text[: text.find(number)])


def _refuse(what: str, before: str) -> NoReturn:
    offset = len(before.encode("utf-8", "surrogateescape"))
    raise invalid(f"JSON Parse error: {what} at offset: {offset}") from None


def _too_deep() -> StatusError:
    return invalid("JSON Parse error: The values are nested too deep. at offset: 0")


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise OverflowError(text)
    return value


def _number(text: str) -> int | float:
    value = int(text) if len(text) <= _LONGEST_INT else None
    return value if value is not None and -_INT64 <= value < 2 * _INT64 else _double(text)


_DECODER = json.JSONDecoder(object_pairs_hook=Members, parse_float=_double, parse_int=_number)


# ------------------------------------------------------------------- showing


def type_name(value: Any) -> str:
    """Return RapidJSON's name of a value's type; true and false are types of their own."""
    if isinstance(value, bool):
        return str(value)
    names = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "Null")


def describe(value: Any) -> str:
    """Return a value in the form of error texts: indented objects, arrays on one line. StatusError if very deep."""
    try:
        return _described(value, 0)
    except RecursionError:
        raise _too_deep() from None


def _described(value: Any, level: int) -> str:
    if isinstance(value, dict) and value:
        inner = _INDENT * (level + 1)
        members = (f"{inner}{_plain(name)}: {_described(item, level + 1)}" for name, item in pairs(value))
        return "{\n" + ",\n".join(members) + f"\n{_INDENT * level}}}"
    if isinstance(value, list):
        return f"[{', '.join(_described(item, level + 1) for item in value)}]"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return orjson.dumps(value).decode()
    return json.dumps(value, ensure_ascii=False)
