"""Numbers, strings and layout as RapidJSON's PrettyWriter and TensorFlow Serving write them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tfs_wire.rest.rapidjson import pairs

Array = np.ndarray[Any, np.dtype[Any]]

INDENT = "    "
_CHUNK = 1 << 16
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WHOLE_LIMIT, _SMALL_LIMIT = 21, -6


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match.group()) or f"\\u{ord(match.group()):04X}"


def string(text: str) -> str:
    """Return a JSON string; only what must be escaped is."""
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def to_bytes(text: str) -> bytes:
    """Return the UTF-8 of a text; bytes that came in as lone surrogates go out as they were."""
    return text.encode("utf-8", "surrogateescape")


def error_body(message: str) -> bytes:
    """Return the body of an answer that tells of an error."""
    return to_bytes(f'{{\n{INDENT}"error": {string(message)}\n}}')


# ------------------------------------------------------------- tensor numbers


def decimals(values: Array) -> list[str]:
    """Return the texts of a flat float32 or float64 array.

    "%.6g" if that gives the number back, else "%.9g" ("%.17g" for float64), with ".0" for whole
    numbers. Denormal numbers are zero, as they are in the real server.
    """
    texts: list[str] = []
    with np.errstate(all="ignore"):
        for start in range(0, len(values), _CHUNK):
            texts.extend(_decimals_chunk(values[start : start + _CHUNK]))
    return texts


def _decimals_chunk(values: Array) -> list[str]:
    flushed = np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(0, values), values)
    numbers = flushed.tolist()
    texts = ("%.6g " * len(numbers) % tuple(numbers)).split()
    back = np.array([float(text) for text in texts]).astype(values.dtype)
    precise = "%.9g" if values.dtype == np.float32 else "%.17g"
    for index in np.flatnonzero(back != flushed).tolist():
        texts[index] = precise % numbers[index]
    return [text if "." in text or "e" in text else _whole_or_named(text) for text in texts]


_NAMED = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _whole_or_named(text: str) -> str:
    return _NAMED.get(text) or text + ".0"


# ---------------------------------------------------------------- any values


def describe(value: Any) -> str:
    """Return a parsed value as error texts show it: indented objects, arrays on one line."""
    return _describe(value, 0)


def _describe(value: Any, level: int) -> str:
    if isinstance(value, dict):
        return _describe_object(value, level)
    if isinstance(value, list):
        return f"[{', '.join(_describe(item, level + 1) for item in value)}]"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, float):
        return double(value)
    if value is None:
        return "null"
    return str(value).lower()


def _describe_object(value: dict[str, Any], level: int) -> str:
    if not value:
        return "{}"
    inner = INDENT * (level + 1)
    members = (f"{inner}{string(name)}: {_describe(item, level + 1)}" for name, item in pairs(value))
    return "{\n" + ",\n".join(members) + f"\n{INDENT * level}}}"


def double(value: float) -> str:
    """Return a number as RapidJSON's own ``Double`` writes it, such as 1000000.0, 0.00001 or 1e22."""
    named = _NAMED.get(str(value))
    if named:
        return named
    if value == 0:
        return str(value)
    mantissa, _, exponent = f"{value!r}".lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return sign + _place_point(digits.rstrip("0"), point)


def _place_point(digits: str, point: int) -> str:
    """``0.DIGITS`` times ten to the power of ``point``."""
    if len(digits) <= point <= _WHOLE_LIMIT:
        return digits.ljust(point, "0") + ".0"
    if 0 < point <= _WHOLE_LIMIT:
        return f"{digits[:point]}.{digits[point:]}"
    if _SMALL_LIMIT < point <= 0:
        return "0." + "0" * -point + digits
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{point - 1}"
