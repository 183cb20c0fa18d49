"""The encoding, read back by botocore's own parser."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from lightbox.features.sagemaker.event_stream import MAX_PART, encode_event, encode_message, parts


def read(stream: bytes) -> list[Any]:
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return list(buffer)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_events_are_read_back_in_their_order(payloads: list[bytes]) -> None:
    events = read(b"".join(encode_event("PayloadPart", payload) for payload in payloads))
    assert [event.payload for event in events] == payloads
    for event in events:
        assert event.headers[":event-type"] == "PayloadPart"
        assert event.headers[":message-type"] == "event"


@given(st.dictionaries(st.text(min_size=1, max_size=60), st.text(max_size=300), max_size=4), st.binary())
def test_any_headers_are_read_back(headers: dict[str, str], payload: bytes) -> None:
    (message,) = read(encode_message(headers, payload))
    assert (message.headers, message.payload) == (headers, payload)


@pytest.mark.parametrize("by_line", [True, False])
@given(body=st.binary())
def test_parts_join_to_the_body(by_line: bool, body: bytes) -> None:
    assert b"".join(parts(body, by_line)) == body


def test_a_line_is_a_part_and_a_long_one_several() -> None:
    long = b"x" * (2 * MAX_PART + 1)
    assert list(parts(b"1\n2\n3", by_line=True)) == [b"1\n", b"2\n", b"3"]
    assert [len(part) for part in parts(long + b"\n4\n", by_line=True)] == [MAX_PART, MAX_PART, 2, 2]
    assert [len(part) for part in parts(b"a\nb" + long, by_line=False)] == [MAX_PART, MAX_PART, 4]
