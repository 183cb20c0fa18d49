"""JSON as TensorFlow Serving's parser reads it: what it takes beyond the standard, and where it stops.

This is the slow, exact reader: it is asked when a quick one has failed, to read what only RapidJSON
takes (``Inf``, a document followed by more text, bytes that are not UTF-8, names twice) or to say
what is wrong, and at which offset, in its words.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

from tfs_wire.rest.rapidjson_numbers import LARGEST_EXPONENT, UINT64, scaled, significand
from tfs_wire.status import invalid

MAX_DEPTH = 500
"""Deeper nesting is refused; no tensor has so many dimensions, and the real server's stack is finite too."""

EMPTY = "The document is empty."
INVALID_VALUE = "Invalid value."
MISSING_NAME = "Missing a name for object member."
MISSING_COLON = "Missing a colon after a name of object member."
MISSING_COMMA_OBJECT = "Missing a comma or '}' after an object member."
MISSING_COMMA_ARRAY = "Missing a comma or ']' after an array element."
BAD_HEX = "Incorrect hex digit after \\u escape in string."
BAD_SURROGATE = "The surrogate pair in string is invalid."
BAD_ESCAPE = "Invalid escape character in string."
MISSING_QUOTE = "Missing a closing quotation mark in string."
TOO_BIG = "Number too big to be stored in double."
MISSING_FRACTION = "Miss fraction part in number."
MISSING_EXPONENT = "Miss exponent in number."
TOO_DEEP = "Terminate parsing due to Handler error."

_SPACE = re.compile(rb"[ \n\r\t]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(rb"\.[0-9]*")
_EXPONENT = re.compile(rb"[eE][+-]?[0-9]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_ESCAPES = {
    b'"': b'"',
    b"\\": b"\\",
    b"/": b"/",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
}
_WORDS = {b"n": (b"null", None), b"t": (b"true", True), b"f": (b"false", False)}
_INT64 = 1 << 63
_SMALLEST_EXPONENT = 214748364


class Members(dict[str, Any]):
    """An object; of a name given twice the first value counts, and ``pairs`` has them all."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[str, Any]] = []

    def add(self, name: str, value: Any) -> None:
        """Append one member."""
        self.pairs.append((name, value))
        self.setdefault(name, value)


def pairs(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return all members of an object in the order of the text."""
    return value.pairs if isinstance(value, Members) else list(value.items())


def parse(data: bytes) -> Any:
    """Return the first document in ``data``; what follows it is not looked at.

    Objects are ``Members``, strings are ``str`` in which bytes that are not UTF-8 are lone surrogates
    ("surrogateescape"). Raises StatusError with INVALID_ARGUMENT "JSON Parse error: ... at offset: N".
    """
    if not data:
        raise invalid("JSON Parse error: The document is empty")
    return _Reader(data).document()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 3 if data.startswith(b"\xef\xbb\xbf") else 0

    def _fail(self, what: str, at: int) -> NoReturn:
        raise invalid(f"JSON Parse error: {what} at offset: {at}")

    def _peek(self) -> bytes:
        """Return the next character; the end and a NUL byte look the same."""
        return self._data[self._at : self._at + 1] or b"\0"

    def _skip_space(self) -> bytes:
        match = _SPACE.match(self._data, self._at)
        assert match is not None
        self._at = match.end()
        return self._peek()

    def document(self) -> Any:
        """Read one value of any depth without recursion."""
        if self._skip_space() in b"\0]},:":
            self._fail(EMPTY, self._at)
        value, opened = self._value()
        if not opened:
            return value
        stack = [value]
        while stack:
            if isinstance(stack[-1], Members):
                self._member(stack)
            else:
                self._element(stack)
            if len(stack) > MAX_DEPTH:
                self._fail(TOO_DEEP, self._at)
        return value

    def _member(self, stack: list[Any]) -> None:
        """Read up to the end of the next member's value, or to the closing bracket."""
        members = stack[-1]
        if self._closes(stack, b"}", bool(members.pairs), MISSING_COMMA_OBJECT):
            return
        if self._peek() != b'"':
            self._fail(MISSING_NAME, self._at)
        name = self._string()
        if self._skip_space() != b":":
            self._fail(MISSING_COLON, self._at)
        self._at += 1
        self._skip_space()
        value, opened = self._value()
        members.add(name, value)
        if opened:
            stack.append(value)

    def _element(self, stack: list[Any]) -> None:
        elements = stack[-1]
        if self._closes(stack, b"]", bool(elements), MISSING_COMMA_ARRAY):
            return
        value, opened = self._value()
        elements.append(value)
        if opened:
            stack.append(value)

    def _closes(self, stack: list[Any], bracket: bytes, has_items: bool, missing: str) -> bool:
        """Pass over a comma or the closing bracket; return whether it was the bracket."""
        following = self._skip_space()
        if following == bracket:
            self._at += 1
            stack.pop()
            return True
        if has_items:
            if following != b",":
                self._fail(missing, self._at)
            self._at += 1
            self._skip_space()
        return False

    def _value(self) -> tuple[Any, bool]:
        """Return a value, and whether it is a container whose contents are still to be read."""
        first = self._peek()
        if first == b"{":
            self._at += 1
            return Members(), True
        if first == b"[":
            self._at += 1
            return [], True
        if first == b'"':
            return self._string(), False
        if first in _WORDS:
            return self._word(*_WORDS[first]), False
        return self._number(), False

    def _word(self, word: bytes, value: Any) -> Any:
        for octet in word:
            if self._peek()[0] != octet:
                self._fail(INVALID_VALUE, self._at)
            self._at += 1
        return value

    # ---------------------------------------------------------------- numbers

    def _number(self) -> int | float:
        start = self._at
        match = _NUMBER.match(self._data, start)
        if match is None:
            return self._named_number()
        self._at = match.end()
        is_double = self._part(_FRACTION, MISSING_FRACTION)
        exponent_at = self._at
        is_double |= self._part(_EXPONENT, MISSING_EXPONENT)
        text = self._data[start : self._at]
        value = int(text) if not is_double and len(text) < 21 else None
        if value is not None and -_INT64 <= value < UINT64:
            return value
        return self._double(text, start, exponent_at)

    def _part(self, pattern: re.Pattern[bytes], missing: str) -> bool:
        match = pattern.match(self._data, self._at)
        if match is None:
            return False
        self._at = match.end()
        if not match.group()[-1:].isdigit():
            self._fail(missing, self._at)
        return True

    def _double(self, text: bytes, start: int, exponent_at: int) -> float:
        mantissa, exponent = text[: exponent_at - start], text[exponent_at - start + 1 :]
        # The exponent is bounded by itself: 0e309 is too big as well.
        decimals = len(mantissa.partition(b".")[2])
        power = max(-_SMALLEST_EXPONENT, int(exponent[:12])) if exponent else 0
        if power > LARGEST_EXPONENT + decimals:
            self._fail(TOO_BIG, start)
        value = scaled(*significand(mantissa), power)
        if math.isinf(value):
            self._fail(TOO_BIG, start)
        return value

    def _named_number(self) -> float:
        """Read NaN, Inf or Infinity with or without a minus."""
        sign = -1.0 if self._peek() == b"-" else 1.0
        if sign < 0:
            self._at += 1
        if self._peek() == b"N":
            return sign * float(self._word(b"NaN", "nan"))
        if self._peek() != b"I":
            self._fail(INVALID_VALUE, self._at)
        self._word(b"Inf", None)
        if self._peek() == b"i":
            self._word(b"inity", None)
        return sign * float("inf")

    # ---------------------------------------------------------------- strings

    def _string(self) -> str:
        self._at += 1
        parts = []
        while True:
            match = _PLAIN.match(self._data, self._at)
            assert match is not None
            parts.append(match.group())
            self._at = match.end()
            following = self._peek()
            if following == b'"':
                self._at += 1
                return b"".join(parts).decode("utf-8", "surrogateescape")
            if following != b"\\":
                self._fail(MISSING_QUOTE if following == b"\0" else BAD_ESCAPE, self._at)
            parts.append(self._escape())

    def _escape(self) -> bytes:
        start = self._at
        self._at += 1
        letter = self._peek()
        self._at += 1
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter != b"u":
            self._fail(BAD_ESCAPE, start)
        code = self._hex(start)
        if 0xD800 <= code <= 0xDBFF:
            if self._data[self._at : self._at + 2] != b"\\u":
                self._fail(BAD_SURROGATE, start)
            self._at += 2
            second = self._hex(start)
            if not 0xDC00 <= second <= 0xDFFF:
                self._fail(BAD_SURROGATE, start)
            code = ((code - 0xD800) << 10 | (second - 0xDC00)) + 0x10000
        return chr(code).encode("utf-8", "surrogatepass")

    def _hex(self, start: int) -> int:
        match = _HEX.match(self._data, self._at)
        if match is None:
            self._fail(BAD_HEX, start)
        self._at = match.end()
        return int(match.group(), 16)


def type_name(value: Any) -> str:
    """Return what RapidJSON calls the type of a value; true and false are types of their own."""
    if isinstance(value, bool):
        return str(value)
    names = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "Null")
