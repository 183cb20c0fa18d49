"""nginx and gunicorn agree on each request: one request, one answer, and no internal header from outside.

The embedded model server refuses what a proxy in front of it could read in another way.
"""

from __future__ import annotations

import http.client
import json
import socket

import numpy as np
import pytest
import requests

from lightbox.model_runtime.server.rest.http_messages import Request, Response
from lightbox.model_runtime.server.rest.http_server import RestServer
from support.fakes import png
from support.patience import PATIENCE
from support.stack import Stack

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: a\r\nX-Amzn-RequestId: smuggled\r\nContent-Length: 0\r\n\r\n"


def exchange(server: Stack | RestServer, request: bytes) -> bytes:
    """Send bytes unchanged. Return everything received until the other side closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n" + headers + b"\r\n" + body


REFUSED = (b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 501")
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
    assert answer.startswith(REFUSED), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    body = answer.partition(b"\r\n\r\n")[2]
    assert json.loads(body).keys() == {"error", "code", "request_id"}
    assert "smuggled" not in stack.log


OF_A_MODEL_SERVER = {
    "lines that end with LF": post(b"", SMUGGLED).replace(b"\r\n", b"\n"),
    "LF in a value": post(b"X-A: a\nContent-Length: 0\r\n", SMUGGLED),
    "CR before the end of a line": post(b"X-A: a\r\r\n", SMUGGLED),
    "a folded line": post(b"X-A: a\r\n Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a line that is folded with a tab": post(b"X-A: a\r\n\tb\r\n", SMUGGLED),
    "a name of nothing": post(b": a\r\n", SMUGGLED),
    "a line without a colon": post(b"Content-Length\r\n", SMUGGLED),
    "a tab before the colon": post(CHUNKED.replace(b":", b"\t:"), b"0\r\n\r\n" + SMUGGLED),
    "a name that is no token": post(b"Content/Length: 0\r\n", SMUGGLED),
    "a name that is not ASCII": post("\u212aeep: 0\r\n".encode(), SMUGGLED),
    "two hosts": post(b"Host: b\r\n", SMUGGLED),
    "a list of hosts": post(b"", SMUGGLED).replace(b"Host: a", b"Host: a, b", 1),
    "a host with a path": post(b"", SMUGGLED).replace(b"Host: a", b"Host: a/b", 1),
    "a length of nothing": post(b"Content-Length:\r\n", SMUGGLED),
    "a length in other digits": post("Content-Length: \u0660\r\n".encode(), SMUGGLED),
    "a length after a no-break space": post(b"Content-Length: \xc2\xa00\r\n", SMUGGLED),
    "a length with a comment": post(b"Content-Length: 0;a\r\n", SMUGGLED),
    "a coding of nothing": post(b"Transfer-Encoding:\r\n", SMUGGLED),
    "a coding and a length of 0": post(b"Transfer-Encoding: gzip\r\nContent-Length: 0\r\n", SMUGGLED),
    "chunks in a coding": post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a coding in quotes": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n" + SMUGGLED),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;a=b\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a coding in other letters": post("Transfer-Encoding: chun\u212aed\r\n".encode(), b"0\r\n\r\n" + SMUGGLED),
    "the same coding twice": post(CHUNKED + CHUNKED, b"0\r\n\r\n" + SMUGGLED),
    "a chunk in 0x": post(CHUNKED, b"0x0\r\n\r\n" + SMUGGLED),
    "a chunk with a sign": post(CHUNKED, b"+0\r\n\r\n" + SMUGGLED),
    "a chunk with a line": post(CHUNKED, b"0_0\r\n\r\n" + SMUGGLED),
    "a blank before a size": post(CHUNKED, b" 0\r\n\r\n" + SMUGGLED),
    "a blank after a size": post(CHUNKED, b"0 \r\n\r\n" + SMUGGLED),
    "an empty line before a size": post(CHUNKED, b"\r\n0\r\n\r\n" + SMUGGLED),
    "a size that ends with LF": post(CHUNKED, b"0\n\r\n" + SMUGGLED),
    "a chunk without its end": post(CHUNKED, b"1\r\nx0\r\n\r\n" + SMUGGLED),
    "a chunk that ends with LF": post(CHUNKED, b"1\r\nx\n0\r\n\r\n" + SMUGGLED),
    "a chunk that is longer than its size": post(CHUNKED, b"1\r\nxx\r\n0\r\n\r\n" + SMUGGLED),
    "an extension with LF": post(CHUNKED, b"0;a\n0\r\n\r\n" + SMUGGLED),
    "an extension with CR": post(CHUNKED, b"0;a\r0\r\n\r\n" + SMUGGLED),
    "an extension without a name": post(CHUNKED, b"0;\r\n\r\n" + SMUGGLED),
    "an extension with an open quote": post(CHUNKED, b'0;a="\r\n\r\n' + SMUGGLED),
    "a length in the trailer": post(CHUNKED, b"0\r\nContent-Length: 5\r\n\r\n" + SMUGGLED),
    "a coding in the trailer": post(CHUNKED, b"0\r\n" + CHUNKED + b"\r\n" + SMUGGLED),
    "a host in the trailer": post(CHUNKED, b"0\r\nHost: b\r\n\r\n" + SMUGGLED),
    "a trailer that ends with LF": post(CHUNKED, b"0\r\nX-A: a\n\r\n" + SMUGGLED),
    "a trailer that is a request": post(CHUNKED, b"0\r\n" + SMUGGLED),
    "a tab in the first line": post(b"", SMUGGLED).replace(b" ", b"\t", 1),
    "two blanks in the first line": post(b"", SMUGGLED).replace(b" ", b"  ", 1),
    "a blank behind the first line": post(b"", SMUGGLED).replace(b"1.1", b"1.1 ", 1),
    "another version": post(b"", SMUGGLED).replace(b"1.1", b"1.2", 1),
    "a version in small letters": post(b"", SMUGGLED).replace(b"HTTP", b"http", 1),
    "a zero byte in the path": post(b"", SMUGGLED).replace(b"/inv", b"/\0inv", 1),
    "LF before the first line": b"\n" + post(b"", SMUGGLED),
}


def test_the_model_server_takes_no_request_that_may_be_read_in_two_ways() -> None:
    taken: list[str] = []

    def handle(request: Request) -> Response:
        taken.append(request.target)
        return Response(200)

    server, wrong = RestServer(0, 1, handle), {}
    server.start()
    try:
        for name, request in (AMBIGUOUS | OF_A_MODEL_SERVER).items():
            answer = exchange(server, request)
            if taken or answer.count(b"HTTP/1.1 ") != 1 or not answer.startswith(REFUSED):
                wrong[name] = (answer, taken.copy())
                taken.clear()
        assert wrong == {}
        chunks = post(CHUNKED.upper(), b'1;a;b=c;d="e f"\r\nx\r\n0\r\nX-A: a\r\n\r\n')
        for request in (chunks, post(b"Content-Length: 1\r\n", b"x")):
            assert exchange(server, request + SMUGGLED).count(b"HTTP/1.1 200") == 1
        assert taken == ["/invocations", "/invocations"]
    finally:
        server.stop(PATIENCE)


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
