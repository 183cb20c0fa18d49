"""Error responses to callers, through the whole stack."""

from __future__ import annotations

import http.client
import json
import socket

import numpy as np
import pytest
import requests

from support.fakes import png
from support.patience import PATIENCE
from support.stack import Stack

IMAGE = png(np.random.default_rng(0).integers(0, 256, (8, 8, 3)))


def raw(stack: Stack, verb: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    """Send any verb and any header, including those that the requests library rejects."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=PATIENCE)
    try:
        connection.request(verb, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


MALFORMED = {
    "no HTTP": (b"good morning\r\n\r\n", 400),
    "another protocol": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "no host": (b"GET /ping HTTP/1.1\r\n\r\n", 400),
    "a version to come": (b"GET /ping HTTP/9.9\r\nHost: a\r\n\r\n", 400),
    "no length": (b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: few\r\n\r\n", 400),
    "no chunks": (b"POST /invocations HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "no coding": (b"POST /invocations HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
    "above the root": (b"GET /../x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a long path": (b"GET /" + b"a" * 7000 + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
    "too long a path": (b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    "too long a header": (b"GET /ping HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 40000 + b"\r\n\r\n", 431),
    "too short a method": (b"AB /invocations HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "too long a method": (b"A" * 3000 + b" /invocations HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a path that is no ASCII": (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a query that is no ASCII": (b"POST /invocations?a=\xff HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400),
    "a control character": (b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: \x01\x1b[2K\r\n\r\n", 400),
    "an inner path": (b"GET /nginx-refusal/malformed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
}


@pytest.mark.parametrize(("request_bytes", "status"), MALFORMED.values(), ids=MALFORMED)
def test_what_nginx_cannot_read_gets_json_too(stack: Stack, request_bytes: bytes, status: int) -> None:
    with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as connection:
        connection.sendall(request_bytes)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        body = answer.read()
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json"), body
    assert json.loads(body).keys() == {"error", "code", "request_id"}
    assert body.count(b"A") <= 200


def test_many_and_long_headers(stack: Stack) -> None:
    headers = {f"X-More-{number}": "value" for number in range(500)} | {"X-Long": "a" * 15000}
    assert raw(stack, "GET", "/nowhere", headers)[0] == 404


def test_ninety_more_header_lines_are_no_problem(stack: Stack) -> None:
    headers = {f"X-More-{number}": "value " * 10 for number in range(90)}
    answer = requests.post(stack.url + "/invocations", data=IMAGE, headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200
