"""A request is the same however its bytes are cut, and any bytes are a request, part of one, or refused."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from model_server.http_parser import HttpError, Request, RequestParser

BODIES = st.binary(max_size=50)
LIMIT = settings(max_examples=100, deadline=None)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def feed(data: bytes, cuts: list[int]) -> list[Request]:
    """Return the requests in ``data``, given in pieces."""
    parser, found = RequestParser(), []
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        piece: bytes = data[start:end]
        while (request := parser.feed(piece)) is not None:
            found.append(request)
            piece = b""
    assert parser.idle
    return found


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
