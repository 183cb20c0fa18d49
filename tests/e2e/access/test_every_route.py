"""Every route, in every spelling of its path, requires a key with the right role."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from support.keys import HEALTH_ROUTE, KEYS, basic, bearer, key
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack

OPEN = {"/ping", "/v2/health/live", "/v2/health/ready", HEALTH_ROUTE}
MORE = [
    ("GET", "/"),
    ("GET", "/ui"),
    ("GET", "/ui/"),
    ("GET", "/ui/page.js"),
    ("GET", "/ui/start.json"),
    ("GET", "/invocations-bidirectional-stream"),
    ("POST", "/models/image_mean/invoke"),
    ("POST", "/nothing"),
    ("OPTIONS", "/invocations"),
    ("PUT", "/models/image_mean"),
]
"""Routes that OpenAPI does not describe."""
METRICS, MANAGE = {"/metrics"}, ("/models", "/v2/repository")


def role(path: str) -> str:
    if path in METRICS:
        return "metrics"
    return "manage" if path.startswith(MANAGE) and not path.endswith("/invoke") else "infer"


@contextmanager
def answered(stack: Stack, method: str, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """Send a request without its body. If the method has a body, send only the headers that announce one."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if method in ("POST", "PUT"):
            connection.putheader("Content-Length", "5000000")
        connection.endheaders()
        yield connection.getresponse()
    finally:
        connection.close()


def refusal(stack: Stack, method: str, path: str, **headers: str) -> tuple[int, str]:
    """Return status and code of a request that must be refused before its body arrives."""
    with answered(stack, method, path, **headers) as answer:
        body = json.loads(answer.read()) if method != "HEAD" else {"code": "", "request_id": ""}
        challenges = answer.headers.get_all("WWW-Authenticate") or []
        assert (answer.status == 401) == bool(challenges)
        assert answer.status != 401 or [word.split()[0] for word in challenges] == ["Bearer", "Basic"]
        assert method == "HEAD" or answer.headers["X-Amzn-RequestId"] == body["request_id"]
        return answer.status, body["code"]


@pytest.fixture(scope="module")
def routes(keyed: Stack) -> list[tuple[str, str]]:
    """Return method and path of all routes, with made-up names in the paths."""
    document = requests.get(f"{keyed.url}/openapi.json", headers=bearer("ci"), timeout=PATIENCE).json()
    described = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    assert len(described) > 40
    assert document["security"]
    found = [(method, path.replace("{", "").replace("}", "")) for method, path in described]
    return [*found, *MORE]


def test_every_route_asks_for_a_key_of_its_role(keyed: Stack, routes: list[tuple[str, str]]) -> None:
    one_of = {"infer": "ci", "metrics": "grafana", "manage": "loader"}
    seen = set()
    for method, path in routes:
        if path in OPEN:
            with answered(keyed, method, path) as answer:
                assert answer.status == 200, path
            continue
        needed = role(path)
        seen.add(needed)
        assert refusal(keyed, method, path) == (401, "unauthenticated"), (method, path)
        for sent in ({"X_API_Key": "wrong"}, {"Authorization": basic("ci", key("boss"))}):
            assert refusal(keyed, method, path, **sent) == (401, "unauthenticated"), (method, path)
        for other in one_of.keys() - {needed}:
            reply = refusal(keyed, method, path, **bearer(one_of[other]))
            assert reply == (403, "permission_denied"), (method, path, other)
    assert seen == {"infer", "metrics", "manage"}


def test_a_key_of_the_role_lets_in(keyed: Stack, routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        if method in ("GET", "POST") and path not in OPEN:
            name = {"infer": "ci", "metrics": "grafana", "manage": "loader"}[role(path)]
            headers = {"X-API-Key": key(name)}
            answer = requests.request(method, keyed.url + path, headers=headers, timeout=PATIENCE)
            assert answer.status_code not in (401, 403), (method, path)


@pytest.mark.parametrize("path", ["/internal/probe", "/nginx-room", "/nginx-refusal/denied"])
def test_routes_of_our_own_are_there_for_nobody(keyed: Stack, path: str) -> None:
    for headers in ({}, bearer("boss")):
        assert refusal(keyed, "GET", path, **headers) == (404, "route_not_found")


def test_head_is_refused_without_a_body(keyed: Stack) -> None:
    assert refusal(keyed, "HEAD", "/metrics") == (401, "")
    assert refusal(keyed, "HEAD", "/metrics", **bearer("ci")) == (403, "")


SPELLINGS = [
    (
        "metrics",
        "/metrics",
        ["//metrics", "/./metrics", "/%6Detrics", "/x/../metrics", "/metrics?x=/ping", "/metrics#x"],
    ),
    ("metrics", "/metrics", ["http://a/metrics", "/x/..%2fmetrics", "/ping/../metrics", "/%2e/metrics"]),
    ("manage", "/models", ["//models", "/./models", "/%6dodels", "/models/", "/models//", "/x/../models", "/models?x"]),
    ("manage", "/models", ["http://a/models", "/ping/../models", "/x%2f..%2fmodels", "/invocations/..//models"]),
    ("manage", "/models/x", ["/models/x/", "/models//x", "/models/x/invoke/..", "/models/x%2f", "/models/%78"]),
    ("manage", "/v2/repository/index", ["/v2//repository/index", "/v2/repository/index/", "/v2/%72epository/index"]),
    ("manage", "/v2/repository/models/x/load", ["/v2/repository/models/../load", "/v2/repository/models/x/./load"]),
]


@pytest.mark.parametrize(("needed", "path", "spelled"), SPELLINGS)
def test_another_spelling_of_a_path_is_the_same_path(keyed: Stack, needed: str, path: str, spelled: list[str]) -> None:
    for written in [path, *spelled]:
        for method in ("GET", "DELETE", *(["POST"] if needed != "metrics" else [])):  # it has no POST
            assert refusal(keyed, method, written) == (401, "unauthenticated"), written
            assert refusal(keyed, method, written, **bearer("ci")) == (403, "permission_denied"), written


@each("path", ["/models/..", "/models/.", "/models/x%0d%0a", "/models/x%00", "/models/%0aX-Y:%20z"])
@each("method", ["GET", "DELETE", "POST"])
def test_no_spelling_manages_with_another_role(keyed: Stack, path: str, method: str) -> None:
    with answered(keyed, method, path, **bearer("ci")) as answer:
        assert answer.status in (400, 403, 404, 405) or (method, path) == ("GET", "/models/..")  # the page
    listed = requests.get(f"{keyed.url}/models", headers=bearer("loader"), timeout=PATIENCE).json()
    assert [model["modelName"] for model in listed["models"]] == ["image_mean"]


HEADERS: list[dict[str, str]] = [
    {"X-Original-URL": "/ping"},
    {"X-Rewrite-URL": "/ping"},
    {"X-Forwarded-Uri": "/ping", "X-Forwarded-Method": "GET"},
    {"X-HTTP-Method-Override": "GET"},
    {"X-Lightbox-Path": "/ping", "X_Lightbox_Path": "/ping"},
    {"X-Lightbox-Caller": "boss", "X_Lightbox_Caller": "boss"},
    {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"},
    {"Authorization": ""},
    {"Authorization": "Bearer"},
    {"Authorization": "AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/sagemaker/aws4_request, Signature=0"},
    {"X-API-Key": ""},
    {"X_API_Key": key("boss")},
    {"Cookie": f"X-API-Key={key('boss')}"},
]


@each("headers", HEADERS)
@each(("method", "path"), [("GET", "/models"), ("POST", "/invocations"), ("GET", "/metrics")])
def test_no_header_but_a_key_opens_a_route(keyed: Stack, method: str, path: str, headers: dict[str, str]) -> None:
    answer = requests.request(method, keyed.url + path, headers=headers, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_a_caller_has_no_say_in_its_name(keyed: Stack) -> None:
    before = len(keyed.log)
    headers = bearer("ci") | {"X-Lightbox-Caller": "boss", "X-Amzn-RequestId": "named"}
    requests.get(f"{keyed.url}/v2/models/image_mean", headers=headers, timeout=PATIENCE)
    keyed.wait_until(lambda: "request_id=named" in keyed.log)
    requests.get(f"{keyed.url}/models", headers=headers, timeout=PATIENCE)
    keyed.wait_until(lambda: keyed.log.count("request_id=named") == 2)
    lines = [line for line in keyed.log[before:].splitlines() if "request_id=named" in line]
    assert [" caller=ci status=200 " in lines[0], " caller=ci status=403 " in lines[1]] == [True, True]


@pytest.mark.parametrize("length", ["100", "5000000", "chunked"])
def test_what_follows_a_refused_body_is_no_request(keyed: Stack, length: str) -> None:
    smuggled = b"DELETE /models/image_mean HTTP/1.1\r\nHost: a\r\nX-API-Key: " + key("boss").encode() + b"\r\n\r\n"
    is_chunked = length == "chunked"
    head = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: " + length.encode()
    with socket.create_connection(("127.0.0.1", keyed.port), timeout=PATIENCE) as connection:
        begun = b"ffff\r\nxx" if is_chunked else b""
        connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n" + begun)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
        connection.sendall(smuggled)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            assert b"HTTP/1.1 200" not in piece
    listed = requests.get(f"{keyed.url}/models", headers=bearer("loader"), timeout=PATIENCE).json()
    assert [model["modelName"] for model in listed["models"]] == ["image_mean"]


def test_no_key_is_in_log_or_metrics(keyed: Stack) -> None:
    page = requests.get(f"{keyed.url}/metrics", headers=bearer("grafana"), timeout=PATIENCE).text
    counts: dict[str, Any] = {name: f'lightbox_caller_requests_total{{caller="{name}"}} ' in page for name in KEYS}
    assert counts == dict.fromkeys(KEYS, True)
    assert 'lightbox_rejected_total{reason="unauthenticated"} ' in page
    for secret, _ in KEYS.values():
        assert secret not in page + keyed.log
