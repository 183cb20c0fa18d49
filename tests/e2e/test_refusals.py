"""nginx's refusals, in both forms: from a whole stack, and from an nginx with a sidecar that the test simulates."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lightbox.base.errors import STATUS_OF_CODE
from lightbox.core.additions import NginxParts
from lightbox.features.sagemaker import SageMaker
from lightbox.nginx import body_memory
from lightbox.nginx.body_memory import BodyAccount
from lightbox.nginx.configuration import render
from lightbox.nginx.installation import find_nginx
from lightbox.serving.settings_loading import load_settings
from lightbox.tools.harness.http_client import status_of
from support.error_shape import assert_error
from support.health import health_server
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port

PATHS = ["/invocations", "/endpoints/any/invocations"]
HEADS = {
    "400 chunks": "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "400 two lengths": "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n",
    "400 no host": "POST {path} HTTP/1.1\r\n\r\n",
    "404": "POST /internal{path} HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\nx",
    "404 HEAD": "HEAD /internal{path} HTTP/1.1\r\nHost: a\r\n\r\n",
    "405": "TRACE {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\nx",
    "413": "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\nx",
    "413 HEAD": "HEAD {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\nx",
    "413 probe": "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\nx",
    "414": f"GET {{path}}{'a' * 40000} HTTP/1.1\r\nHost: a\r\n\r\n",
    "431": f"GET {{path}} HTTP/1.1\r\nHost: a\r\nX: {'a' * 40000}\r\n\r\n",
    "431 HEAD": f"HEAD {{path}} HTTP/1.1\r\nHost: a\r\nX: {'a' * 40000}\r\n\r\n",
}
"""By the status: what is sent. Of a body a byte comes at most: nobody waits for the rest."""
CODES = {
    "400": "bad_request",
    "404": "route_not_found",
    "405": "method_not_allowed",
    "413": "too_large",
    "414": "bad_request",
    "431": "bad_request",
}
FORGED = "X-Lightbox-Form: grpc\r\nX-Lightbox-Request: FORGED /x\r\nX-Lightbox-Length: 5\r\n"


def ask(port: int, head: str) -> tuple[int, dict[str, str], bytes]:
    """Send the bytes unchanged. Return status, headers and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        answer = http.client.HTTPResponse(connection, method=head.partition(" ")[0])
        answer.begin()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", HEADS)
def test_each_refusal_in_its_form_logged_once(stack: Stack, case: str, path: str) -> None:
    request_id = f"refused-{PATHS.index(path)}-{case.replace(' ', '-')}"
    line, _, rest = HEADS[case].format(path=path).partition("\r\n")
    status, headers, body = ask(stack.port, f"{line}\r\nX-Request-Id: {request_id}\r\n{FORGED}{rest}")
    number = case[:3]
    if number == "414":  # nginx does not read headers then
        request_id = headers["x-amzn-requestid"]
    model_error = number == "413" and path == PATHS[1] and "probe" not in case
    assert (status, headers["content-type"]) == (424 if model_error else int(number), "application/json")
    assert headers["x-amzn-requestid"] == request_id
    assert "x-lightbox-code" not in headers
    assert ("allow" in headers, "retry-after" in headers) == (number == "405", False)
    if "HEAD" in case:
        assert (body, headers["content-length"] > "0") == (b"", True)
    elif number in ("404", "405", "413"):
        assert_error(status, headers, body, path if model_error else "/", CODES[number], request_id)
    else:
        reply = json.loads(body)
        assert (reply["code"], reply["request_id"]) == (CODES[number], request_id)
    assert b"FORGED" not in body
    stack.wait_for_ping(200)
    (logged,) = stack.lines_with(f"request_id={request_id} ")
    assert f"status={status} " in logged
    assert f"error={CODES[number]}" in logged


class Played:
    """Simulates the supervisor's answers, and a sidecar that closes each connection or stays silent."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.is_silent = False
        self.account = BodyAccount(most=10_000_000, largest=8_000_000)
        self._folder = folder
        self._settings = load_settings(
            {"SAGEMAKER_BIND_TO_PORT": str(self.port), "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "1"}
        )

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_silent:
            await reader.read()  # until nginx gives up
        writer.close()

    async def serve(self, begun: threading.Event, ended: threading.Event) -> None:
        """Answer nginx until the test has ended."""
        server = health_server(self._folder, bodies=self.account, settings=self._settings)
        sidecar = await asyncio.start_unix_server(self._take, str(self._folder / "sidecar"))
        async with sidecar, await server.serve(f"unix:{self._folder}/health"):
            begun.set()
            await asyncio.to_thread(ended.wait)

    @contextmanager
    def nginx(self) -> Iterator[None]:
        """Run nginx in front of the simulated supervisor and sidecar."""
        addresses = {name: f"unix:{self._folder}/{name.lower()}" for name in ("SIDECAR", "HEALTH")}
        conf = self._folder / "nginx.conf"
        of_sagemaker = NginxParts(places={"MODEL_ERRORS": "|".join(SageMaker.model_errors)})
        conf.write_text(render(self._settings, self._folder, addresses, 100 << 20, parts=[of_sagemaker]))
        with subprocess.Popen([find_nginx(), "-e", "stderr", "-c", str(conf)]) as process:
            try:
                assert any(status_of(self.port, "/ping", seconds=PATIENCE) for _ in poll())
                yield
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    played = Played(tmp_path_factory.mktemp("played"))
    begun, ended = threading.Event(), threading.Event()
    serving = threading.Thread(target=lambda: asyncio.run(played.serve(begun, ended)))
    serving.start()
    try:
        assert begun.wait(PATIENCE)
        with played.nginx():
            yield played
    finally:
        ended.set()
        serving.join()


def post(path: str, length: str, method: str = "POST") -> str:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n"


@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("case", "length", "code", "said"),
    [
        (
            "a sidecar that hangs up",
            "Content-Length: 1\r\n\r\nx",
            "worker_lost",
            "try again: the worker ended while it had the request",
        ),
        ("a silent sidecar", "Content-Length: 3\r\n\r\nabc", "deadline_exceeded", "no answer came within 1 s"),
        (
            "no room",
            "Content-Length: 3000000",
            "queue_full",
            "try again: the bodies of other requests have all the room",
        ),
        ("no storage", "Content-Length: 8000000", "no_room", "the server's temporary storage has no room"),
    ],
)
def test_refusals_of_what_the_sidecar_would_take(
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    length: str,
    code: str,
    said: str,
    path: str,
    method: str,
) -> None:
    played.is_silent = case == "a silent sidecar"
    monkeypatch.setattr(body_memory, "free_bytes", lambda: 0 if case == "no storage" else 1 << 40)
    played.account.clear()
    assert case != "no room" or played.account.take("1", "held", 8_000_000)
    status, headers, body = ask(played.port, post(path, length, method))
    assert (headers.get("retry-after") == "1") == (code in ("worker_lost", "queue_full"))
    assert (headers["connection"] == "close") == (code == "no_room")  # its body was not read
    if method == "POST":
        assert assert_error(status, headers, body, path, code).startswith(said)
    else:
        expected = 424 if path == PATHS[1] else STATUS_OF_CODE[code].http
        assert (status, body, headers["content-type"]) == (expected, b"", "application/json")


def test_a_body_of_unknown_length_may_be_small(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_memory, "free_bytes", lambda: 1 << 40)
    played.is_silent = False
    for held, size, code in [(5_000_000, 3 << 20, "queue_full"), (5_000_000, 9, "worker_lost")]:
        played.account.clear()
        assert played.account.take("1", "held", held)
        sent = post("/invocations", "Transfer-Encoding: chunked") + f"{size:x}\r\n{'a' * size}\r\n0\r\n\r\n"
        status, headers, body = ask(played.port, sent)
        assert_error(status, headers, body, "/invocations", code)
