"""Parsing does not depend on how the bytes are split. Any bytes are a request, part of one, or an error."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.model_runtime.server.rest.http_parser import HttpError, Request, RequestParser
from support.parameters import each

BODIES = st.binary(max_size=50)
LIMIT = settings(max_examples=100, deadline=None)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def feed(data: bytes, cuts: list[int]) -> list[Request]:
    """Return the requests parsed from ``data``, which arrives in pieces."""
    parser, found = RequestParser(), []
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        piece: bytes = data[start:end]
        while (request := parser.feed(piece)) is not None:
            found.append(request)
            piece = b""
    assert parser.idle
    return found


@pytest.mark.extended
@given(st.lists(st.tuples(BODIES, st.integers(0, 9)), min_size=1, max_size=4), st.lists(st.integers(0, 2000)))
@LIMIT
def test_any_cut_gives_the_same_requests(bodies: list[tuple[bytes, int]], cuts: list[int]) -> None:
    data = b""
    for body, size in bodies:
        data += b"POST /v1/x HTTP/1.1\r\nX-A:  b \r\n"
        if size:
            data += b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, size)
        else:
            data += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    requests = feed(data, cuts)
    assert [bytes(request.body) for request in requests] == [body for body, _ in bodies]
    assert all(request.headers["x-a"] == "b" and request.keep_alive for request in requests)


@given(st.binary(max_size=300))
@LIMIT
def test_any_bytes(data: bytes) -> None:
    parser = RequestParser()
    try:
        parser.feed(data + b"\r\n\r\n")
    except HttpError as error:
        assert error.status in (400, 413, 501)


@each(
    ("head", "status"),
    [
        (b"Content-Length: " + b"9" * 5000, 400),  # Python refuses to convert so many digits
        (b"Content-Length: " + b"9" * 60, 413),
        (b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 1000, 413),
        (b"Transfer-Encoding: chunked\r\n\r\n;name=value", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n0" + b"\r\nA: b" * 20_000, 413),
    ],
)
def test_lengths_that_are_none(head: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        RequestParser().feed(b"POST /v1/x HTTP/1.1\r\n" + head + b"\r\n\r\n")
    assert refused.value.status == status


@pytest.mark.parametrize(
    "body", [b"Content-Length: 1\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"]
)
def test_a_body_does_not_stay_behind(body: bytes) -> None:
    parser = RequestParser()
    request = parser.feed(b"POST / HTTP/1.1\r\n" + body)
    assert request is not None
    gone = weakref.ref(request)
    del request
    assert gone() is None


def seconds_for(pieces: list[bytes]) -> float:
    """Return the CPU time that a parser needs for the pieces."""
    parser, started = RequestParser(), time.thread_time()
    for piece in pieces:
        request = parser.feed(piece)
        while request is not None:
            request = parser.feed(b"")
    return time.thread_time() - started


MANY = {
    "requests in one piece": lambda count: [b"GET / HTTP/1.1\r\n\r\n" * count],
    "requests with bodies": lambda count: [b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" * count],
    "chunks": lambda count: [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count],
    "empty lines": lambda count: [b"\r\n" * count],
    "a head in single bytes": lambda count: [b"GET / HTTP/1.1\r\nA: ", *[b"x"] * count],
    "a body in single bytes": lambda count: [b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", *[b"x"] * count],
}


@pytest.mark.extended
@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_twice_as_much_costs_twice_as_much(make: Callable[[int], list[bytes]]) -> None:
    # With eight times the input, quadratic cost would be 64 times as high. The sizes alternate, and the minimum of
    # five runs counts, because other load on the machine slows both.
    few, many = make(7_000), make(56_000)
    times = [(seconds_for(few), seconds_for(many)) for _ in range(5)]
    assert min(large for _, large in times) < 20 * min(small for small, _ in times)
