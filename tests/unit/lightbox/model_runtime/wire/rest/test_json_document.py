"""Reading of JSON documents: as the standard library does, with the tolerances that are recorded."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.model_runtime.wire.rest.json_document import load, pairs
from lightbox.model_runtime.wire.status import Code, StatusError
from support.carried_arrays import JSON_VALUES, LIMIT
from support.parameters import each


def error(body: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        load(body)
    return caught.value.message


@given(st.binary(max_size=40) | st.text('{}[]",:0123456789.eE+-InfNa\\u truefalsn', max_size=30).map(str.encode))
@LIMIT
def test_any_bytes_are_a_document_or_an_error(body: bytes) -> None:
    try:
        load(body)
    except StatusError as refused:
        assert refused.message.startswith("JSON Parse error: ")


@given(JSON_VALUES, st.text("x \n", max_size=3))
@LIMIT
def test_a_document_is_read_as_the_standard_library_does(value: Any, after: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.dumps(load(f"{text} {after}".encode())) == json.dumps(json.loads(text))


@each(
    ("body", "offset"),
    [
        *[(b" ", 1), (b"}", 0), (b"nul", 0), (b"{1}", 1), (b'{"a" 1}', 5), (b'{"a":1 "b"}', 7), (b"[1 2]", 3)],
        *[(b'["\\x"]', 2), (b'["\\u12g4"]', 3), (b'["\\ud800x"]', 2), (b'["a', 1), (b"[1.]", 2), (b"[1e]", 2)],
        *[(b"[1e309]", 1), (b"[-1e400]", 1), (b"[-]", 1), (b"[Infinit]", 1), (b"[1,", 3), (b"[", 1), (b'{"a":', 5)],
        *[(b'{"a":1', 6), (b'["\xff", x]', 6), (b"\xef\xbb\xbf[x]", 1), (b"[1" + b"0" * 400 + b"]", 1)],
    ],
)
def test_malformed(body: bytes, offset: int) -> None:
    with pytest.raises(StatusError) as caught:
        load(body)
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert re.fullmatch(rf"JSON Parse error: .+ at offset: {offset}", caught.value.message)


def test_an_empty_body_has_no_position() -> None:
    assert error(b"") == "JSON Parse error: The document is empty"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"NaN" + b"]" * 900])
def test_deep_nesting_is_refused_or_read(body: bytes) -> None:
    try:
        load(body)
    except StatusError as refused:
        assert refused.message.startswith("JSON Parse error: The values are nested too deep.")


def test_a_quote_that_is_never_closed_takes_no_time() -> None:
    """The reader scans the strings of a text that contains "Inf". This one has a million escaped quotes."""
    assert error(b'["Inf", "' + b'\\"' * 1_000_000).startswith("JSON Parse error: Unterminated string")


@each(
    ("body", "value"),
    [
        *[(b"\xef\xbb\xbf[1]", [1]), (b"[1] trailing", [1]), (b"[1]\x00", [1]), (b"[-Inf]", [-math.inf])],
        (b'["Inf \\"Inf", Inf]', ['Inf "Inf', math.inf]),
        *[(b'["\\u00e9\\ud83d\\ude00"]', ["\u00e9\U0001f600"]), (b'["\xff"]', ["\udcff"])],
        *[
            (b"[18446744073709551616]", [1.8446744073709552e19]),
            (b"[-9223372036854775809]", [-9.223372036854775808e18]),
        ],
        *[(b"[1e-400]", [0.0]), (b"[0.1]", [0.1]), (b"[1E+2]", [100.0])],
    ],
)
def test_what_is_taken_beyond_the_standard(body: bytes, value: Any) -> None:
    assert load(body) == value


def test_of_a_name_given_twice_the_first_counts() -> None:
    document = load(b'{"a": 1, "a": [2]}')
    assert document["a"] == 1
    assert pairs(document) == [("a", 1), ("a", [2])]


LONG = b"1.5," * 700_000


@pytest.mark.parametrize("fault", [b"x]", b"1e999]"])
def test_of_long_malformed_bodies_the_place_is_reported_too(fault: bytes) -> None:
    with pytest.raises(StatusError, match=f" at offset: {1 + len(LONG)}$"):
        load(b"[" + LONG + fault)


def test_long_bodies_with_escapes_and_infinities_are_read() -> None:
    document = load(b'{"a": ["\\u00e9", "\\"", Infinity, ' + LONG + b"NaN]}")
    assert document["a"][:3] == ["\u00e9", '"', math.inf]
