"""Two readers of a request in a row never differ: its end, its target, the length of its body (support/framing.py)."""

from __future__ import annotations

import http.client
import json
import re

import numpy as np
import pytest
import requests

from lightbox.model_runtime.server.rest.http_messages import Request, Response
from lightbox.model_runtime.server.rest.http_server import RestServer
from support.fakes import png
from support.framing import CLASSES, Form, exchange, forms
from support.h2_caller import H2Caller
from support.parameters import few_of
from support.patience import PATIENCE
from support.stack import Stack

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: a\r\nX-Amzn-RequestId: smuggled\r\nContent-Length: 0\r\n\r\n"
TAKEN = re.compile(
    r"request\] request_id=(\S+) method=(\S+) route=unmatched path=(\S+) .*bytes_in=(\d+) .*error=route_not_found"
)
"""The line of a worker about a request whose path is no route."""
CALLED = re.compile(r"request\] request_id=(\S+) method=\S+ route=unmatched path=unmatched ")
"""The line of the gRPC front about a call of no method; its caller chooses the id."""


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n" + headers + b"\r\n" + body


@pytest.mark.parametrize("kind", few_of(CLASSES, "lengths"))
def test_a_worker_reads_what_nginx_has_read(stack: Stack, kind: str) -> None:
    stack.invoke(b"", f"/{kind}/begin")
    answers = {form: exchange(stack, form.message()) for form in forms(kind)}
    stack.invoke(b"", f"/{kind}/end")
    lines = TAKEN.findall(between(stack, f" path=/{kind}/begin ", f" path=/{kind}/end "))
    problems = []
    for form, answer in answers.items():
        own = [line for line in lines if line[2].startswith(form.path)]
        problems.append(form.problem("nginx", [f"{method} {path} {size}" for _, method, path, size in own], answer))
        unasked = [line for line in own if line[0].encode() not in answer]
        problems += [f"{form.name}: {unasked} are in no answer"] if unasked else []
        lines = [line for line in lines if line not in own]
    assert not list(filter(None, problems))
    assert not lines


@pytest.mark.parametrize("kind", CLASSES)
def test_the_model_server_reads_no_request_in_two_ways(kind: str) -> None:
    taken = list[str]()

    def handle(request: Request) -> Response:
        target = re.sub(r"^[a-z]+://[^/]*", "", request.target).partition("?")[0]
        taken.append(f"{request.method} {target} {len(request.body)}")
        return Response(200)

    server, problems = RestServer(0, 1, handle), []
    server.start()
    try:
        for form in forms(kind):
            answer = exchange(server, form.message())
            problems.append(form.problem("rest", taken, answer))
            taken.clear()
    finally:
        server.stop(PATIENCE)
    assert not list(filter(None, problems))


def test_the_grpc_front_reads_what_nginx_has_read(stack: Stack) -> None:
    everything = list(forms("http2"))
    first, last = (Form("http2", number, "a call of no method", {}) for number in (998, 999))
    for form in [first, *everything, last]:
        call(stack, form)
    lines = CALLED.findall(between(stack, f"request_id={first.path} ", f"request_id={last.path} "))
    problems = []
    for form in everything:
        taken = lines.count(form.path)
        lines = [line for line in lines if line != form.path]
        if not len(form.by) <= taken <= bool(form.reads):
            problems.append(f"{form.name}: took {taken}, may take {form.reads}")
    assert not problems
    assert not lines


def between(stack: Stack, first: str, last: str) -> str:
    """Return the log between the lines of two requests; lines of earlier requests may come late."""
    stack.wait_until(lambda: last in stack.log)
    return stack.log.partition(first)[2].partition(last)[0].rpartition("\n")[0]


def call(stack: Stack, form: Form) -> None:
    """Send a call over HTTP/2, and wait for its end."""
    given = [(form.fill(name), form.fill(value)) for name, value in form.given.get("fields", [])]
    usual = {":method": "POST", ":scheme": "http", ":authority": "a", ":path": form.path}
    usual |= {"content-type": "application/grpc", "te": "trailers", "x-amzn-requestid": form.path}
    others = [item for item in usual.items() if item[0] not in dict(given)]
    fields = sorted([*given, *others], key=lambda field: not field[0].startswith(":"))
    data = form.fill(form.given.get("data", "")).encode("latin-1")
    with H2Caller(int(stack.environ["LIGHTBOX_KSERVE_GRPC_PORT"])) as caller:
        stream = caller.open(fields, end=not data)
        if data:
            caller.send(stream, data, end=True)
        caller.answer(stream)


def test_requests_in_a_row_get_an_answer_each(stack: Stack) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(IMAGE), IMAGE)
    last = post(b"Content-Length: %d\r\nX-Amzn-RequestId: third\r\nConnection: close\r\n" % len(IMAGE), IMAGE)
    answer = exchange(
        stack, post(b"Transfer-Encoding: chunked\r\nX-Amzn-RequestId: first\r\n", chunks) + SMUGGLED + last
    )
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
