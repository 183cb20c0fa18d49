"""Bytes in REST bodies: {"b64": ...}, padded or not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.base64_value import decode_base64
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import StatusError
from support.parameters import each

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
CHARACTERS = "AZaz09+/=\n -_\u00e9"


def read(body: bytes) -> Any:
    return read_predict(body, lambda name: {"x": dtypes.DT_STRING}).inputs["x"].tolist()


@pytest.mark.parametrize("text", ["YWI=", "YWI", "Y W\nI="])
def test_base64_with_and_without_padding(text: str) -> None:
    assert read(json.dumps({"instances": [{"b64": text}]}).encode()) == [b"ab"]


@each("text", ["!", "A", "YWI==", "YWJj=", "YWJj====", "YW=I", "\u00e9"])
def test_malformed_base64(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(json.dumps({"inputs": {"b64": text}}).encode())
    assert caught.value.message == "Unable to base64 decode"


def slowly(text: str) -> bytes | None:
    """Decode digit by digit; return None for invalid base64."""
    digits = "".join(character for character in text if character not in " \t\n\v\f\r")
    digits, count = digits.rstrip("="), len(digits)
    padding, missing = count - len(digits), -len(digits) % 4
    if missing == 3 or padding not in (0, missing) or not set(digits) <= set(ALPHABET):
        return None
    bits = "".join(f"{ALPHABET.index(digit):06b}" for digit in digits)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) // 8 * 8, 8))


@st.composite
def long_texts(draw: st.DrawFn) -> str:
    """Return base64 that is long enough for SIMD, with one character replaced."""
    text = base64.b64encode(draw(st.binary(min_size=60, max_size=120))).decode()
    at = draw(st.integers(0, len(text) - 1))
    return text[:at] + draw(st.sampled_from(CHARACTERS)) + text[at + 1 :]


@given(st.text(st.sampled_from(CHARACTERS), max_size=12) | st.text(max_size=8) | long_texts())
@settings(max_examples=100, deadline=None)
def test_each_text_is_read_as_its_digits_say(text: str) -> None:
    try:
        found = decode_base64({"b64": text})
    except StatusError:
        found = None
    assert found == slowly(text)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_bytes_travel_as_base64(values: list[bytes]) -> None:
    body = json.dumps({"instances": [{"x": {"b64": base64.b64encode(value).decode()}} for value in values]})
    assert read(body.encode()) == values
