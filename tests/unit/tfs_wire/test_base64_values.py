"""Bytes in REST bodies: {"b64": ...}, padded or not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfs_wire import dtypes
from tfs_wire.rest.request import read_predict
from tfs_wire.status import StatusError


def read(body: bytes) -> Any:
    return read_predict(body, lambda name: {"x": dtypes.DT_STRING}).inputs["x"].tolist()


@pytest.mark.parametrize("text", ["YWI=", "YWI", "Y W\nI="])
def test_base64_with_and_without_padding(text: str) -> None:
    assert read(json.dumps({"instances": [{"b64": text}]}).encode()) == [b"ab"]


@pytest.mark.parametrize("text", ["!", "A", "YWI==", "YWJj=", "YW=I", "\u00e9"])
def test_malformed_base64(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(json.dumps({"inputs": {"b64": text}}).encode())
    assert caught.value.message == "Unable to base64 decode"


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_bytes_travel_as_base64(values: list[bytes]) -> None:
    body = json.dumps({"instances": [{"x": {"b64": base64.b64encode(value).decode()}} for value in values]})
    assert read(body.encode()) == values
