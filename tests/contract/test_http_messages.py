"""HTTP messages: chunks, bodies that come in pieces, and malformed ones."""

from __future__ import annotations

import pytest

from lightbox.model_runtime.server.rest.http_server import MAX_HEAD_BYTES
from support.model_server import ModelServer
from support.parameters import each
from support.rest_bytes import ANSWER, BODY, PREDICT, connect, exchange, request


@pytest.mark.parametrize("sizes", [[19], [1, 2, 16], [7, 12]])
def test_chunked_bodies(recorded_server: ModelServer, sizes: list[int]) -> None:
    head = f"POST {PREDICT} HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks, start = b"", 0
    for size in sizes:
        chunks += f"{size:x};name=value\r\n".encode() + BODY[start : start + size] + b"\r\n"
        start += size
    assert exchange(recorded_server, head + chunks + b"0\r\nTrailer: x\r\n\r\n").endswith(ANSWER)


def test_a_client_that_waits_for_100_continue(recorded_server: ModelServer) -> None:
    with connect(recorded_server) as sock:
        head, _, _ = request(BODY, "Expect: 100-continue").partition(BODY)
        sock.sendall(head)
        assert sock.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(BODY)
        assert sock.recv(4096).endswith(ANSWER)


def test_a_body_that_comes_byte_by_byte(recorded_server: ModelServer) -> None:
    with connect(recorded_server) as sock:
        for octet in request():
            sock.send(bytes([octet]))
        assert sock.recv(4096).endswith(ANSWER)


@each(
    ("data", "status"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET /v1/models/slow\r\n\r\n", 400),
        (b"GET  HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/models/slow HTTP/2.0\r\n\r\n", 400),
        (b"FOO /v1/models/slow HTTP/1.1\r\n\r\n", 501),
        (b"TRACE /v1/models/slow HTTP/1.1\r\n\r\n", 501),
        (b"GET /v1/models/slow HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 1e9\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n", 413),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: " + b"0" * 5000 + b"1\r\n\r\n", 413),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"y" * (MAX_HEAD_BYTES + 10), 413),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * (MAX_HEAD_BYTES + 10), 413),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", 400),
        (b"GET /v1/x HTTP/1.1\r\nX: " + b"y" * (MAX_HEAD_BYTES + 10), 413),
    ],
)
def test_malformed_requests(recorded_server: ModelServer, data: bytes, status: int) -> None:
    answer = exchange(recorded_server, data)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.endswith(b"</BODY></HTML>\n")
