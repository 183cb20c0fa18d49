"""nginx and gunicorn agree on each request: one request, one answer, and no internal header from outside."""

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

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: a\r\nX-Amzn-RequestId: smuggled\r\nContent-Length: 0\r\n\r\n"


def exchange(stack: Stack, request: bytes) -> bytes:
    """Send bytes unchanged. Return everything received until the other side closes."""
    with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n" + headers + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "both lengths": post(CHUNKED + b"Content-Length: 4\r\n", b"0\r\n\r\n" + SMUGGLED),
    "both lengths, the other way": post(b"Content-Length: 4\r\n" + CHUNKED, b"0\r\n\r\n" + SMUGGLED),
    "two lengths": post(b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(SMUGGLED), SMUGGLED),
    "the same length twice": post(b"Content-Length: 0\r\nContent-Length: 0\r\n", SMUGGLED),
    "a list of lengths": post(b"Content-Length: 0, 0\r\n", SMUGGLED),
    "a length with a sign": post(b"Content-Length: +0\r\n", SMUGGLED),
    "a length in hexadecimal": post(b"Content-Length: 0x0\r\n", SMUGGLED),
    "a length below zero": post(b"Content-Length: -1\r\n", SMUGGLED),
    "a space before the colon": post(b"Content-Length : %d\r\n" % len(SMUGGLED), SMUGGLED),
    "an unknown coding": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "codings in a row": post(b"Transfer-Encoding: identity, chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "two codings": post(CHUNKED + b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a coding after a tab": post(b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a zero byte in a name": post(b"Content-Le\0ngth: 0\r\n", SMUGGLED),
    "a zero byte in a value": post(b"X-A: a\0b\r\nContent-Length: 0\r\n", SMUGGLED),
    "a bare carriage return": post(b"X-A: a\rX-Amzn-RequestId: smuggled\r\nContent-Length: 0\r\n", b""),
    "a chunk that is too long": post(CHUNKED, b"ffffffffffffffff1\r\n" + SMUGGLED),
    "a chunk of no size": post(CHUNKED, b"-1\r\n" + SMUGGLED),
    "an older protocol with chunks": b"POST /invocations HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("request_bytes", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous_requests_are_refused_with_all_behind_them(stack: Stack, request_bytes: bytes) -> None:
    answer = exchange(stack, request_bytes)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    body = answer.partition(b"\r\n\r\n")[2]
    assert json.loads(body).keys() == {"error", "code", "request_id"}
    assert "smuggled" not in stack.log


def test_a_folded_header_is_no_header_of_its_own(stack: Stack) -> None:
    folded = b"X-A: a\r\n X-Amzn-RequestId: folded\r\nContent-Length: %d\r\nConnection: close\r\n" % len(IMAGE)
    answer = exchange(stack, post(folded, IMAGE))
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))
    assert b"folded" not in answer


def test_requests_in_a_row_get_an_answer_each(stack: Stack) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(IMAGE), IMAGE)
    last = post(b"Content-Length: %d\r\nX-Amzn-RequestId: third\r\nConnection: close\r\n" % len(IMAGE), IMAGE)
    answer = exchange(stack, post(CHUNKED + b"X-Amzn-RequestId: first\r\n", chunks) + SMUGGLED + last)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]
    ids = [line.partition(b": ")[2] for line in answer.split(b"\r\n") if line.startswith(b"X-Amzn-RequestId")]
    assert ids == [b"first", b"smuggled", b"third"]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Lightbox-Received": "1"},
        {"X_Lightbox_Received": "1"},
        {"x-lightbox-received": "1", "X_LIGHTBOX_RECEIVED": "1", "X-Lightbox_Received": "1"},
        {"Connection": "close, X-Lightbox-Received"},
        {"SCRIPT_NAME": "/x", "Script-Name": "/x", "PATH_INFO": "/x", "REMOTE_ADDR": "x", "wsgi.input": "x"},
        {"X-Forwarded-Proto": "https", "X-Forwarded-Protocol": "ftp", "X-Forwarded-Ssl": "on"},
        {"Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__", "Connection": "Upgrade, HTTP2-Settings"},
        {"Proxy": "http://evil", "X-Original-URL": "/internal/probe", "X-HTTP-Method-Override": "DELETE"},
        {"Expect": "100-continue"},
        {"X-Amzn_RequestId": "forged", "X_Amzn_RequestId": "forged", "X_Request_Id": "forged"},
    ],
)
def test_headers_that_mean_something_inside_do_not_come_from_outside(stack: Stack, headers: dict[str, str]) -> None:
    answer = requests.post(f"{stack.url}/invocations", IMAGE, headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Amzn-RequestId"] != "forged"


@pytest.mark.parametrize(
    "given", ["a b", "a\tb", 'a"b', "a}{", "a\x1b[2K", "é", "a" * 129, "request_id=x status=200", "%0a"]
)
def test_a_request_id_that_is_not_plain_is_not_taken(stack: Stack, given: str) -> None:
    answer = requests.post(
        f"{stack.url}/invocations", IMAGE, headers={"X-Amzn-RequestId": given.encode()}, timeout=PATIENCE
    )
    if answer.status_code != 400:  # nginx refuses control characters
        assert answer.status_code == 200
        assert len(answer.headers["X-Amzn-RequestId"]) == 32


@pytest.mark.parametrize(
    "path",
    [
        "/internal/probe",
        "//internal/probe",
        "/internal//probe",
        "/%69nternal/probe",
        "/x/../internal/probe",
        "/x/..%2finternal/probe",
        "/./internal/probe",
        "/internal%2fprobe",
        "http://a/internal/probe",
        "/nginx-refusal/malformed",
        "/nginx-room",
    ],
)
def test_routes_of_our_own_are_not_there(stack: Stack, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=PATIENCE)
    try:
        connection.putrequest("GET", path, skip_accept_encoding=True)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (404, "route_not_found")
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/swagger.json", "/console", "/static/x"])
def test_there_are_no_pages_of_documentation_to_turn_off(stack: Stack, path: str) -> None:
    assert stack.invoke(b"", path).status_code == 404


@pytest.mark.parametrize("meant", ["ping", "metrics", "v2/health/live"])
@pytest.mark.parametrize("written", ["room/1/x/..%2f..%2f..%2f", "failure/..%2f", "internal/..%2f", "x/%2e%2e/"])
def test_a_path_that_means_a_probe_reaches_no_other_place_of_the_supervisor(
    stack: Stack, written: str, meant: str
) -> None:
    before = stack.log
    answer = exchange(stack, f"GET /{written}{meant} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert stack.ping() == 200
    assert "Traceback" not in stack.log.removeprefix(before)
