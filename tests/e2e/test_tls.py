"""TLS at nginx's port: protocols, client certificates, and reloads after a change of the files."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import boto3
import grpc
import httpx
import numpy as np
import pytest
import requests
from botocore.config import Config
from typing_extensions import override
from websockets.asyncio.client import connect

from support.certificates import Authority, mount, write_pair
from support.error_shape import assert_error
from support.fakes import png
from support.models import copy_golden
from support.parameters import each
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, free_port
from support.streams import ROUTE, frame

AUTHORITY, STRANGER = Authority(), Authority("Authority of others")
IMAGE = png(np.full((8, 8, 3), (3, 20, 30), np.uint8))
PREDICTIONS = {"predictions": [[3.0, 20.0, 30.0]]}
PNG = {"Content-Type": "image/png"}
MAX_BODY_MB, ROOM_MB = 8, 16
GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"

pytestmark = pytest.mark.extended


class TlsStack(Stack):
    """A stack with TLS, and its callers: they trust ``ca`` and present the certificate in ``client``."""

    ca: Path
    client: Path | None = None

    @property
    @override
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @override
    def ping(self) -> int | None:
        with suppress(requests.ConnectionError):
            return requests.get(f"{self.url}/ping", verify=str(self.ca), timeout=PATIENCE).status_code
        return None

    @property
    def shown(self) -> tuple[str, str] | None:
        """Return the files of the caller's certificate and key."""
        return (str(self.client / "tls.crt"), str(self.client / "tls.key")) if self.client else None

    def context(self, client: bool = True) -> ssl.SSLContext:
        """Return a caller's TLS context."""
        context = ssl.create_default_context(cafile=self.ca)
        if client and self.shown:
            context.load_cert_chain(*self.shown)
        return context

    def call(self, method: str, path: str, client: bool = True, **options: Any) -> requests.Response:
        """Send a request on a new connection."""
        shown = self.shown if client else None
        return requests.request(
            method, self.url + path, verify=str(self.ca), cert=shown, timeout=PATIENCE, allow_redirects=False, **options
        )

    def http2(self, client: bool = True) -> httpx.Client:
        """Return an HTTP/2 client."""
        return httpx.Client(http2=True, verify=self.context(client), base_url=self.url, timeout=PATIENCE)

    def presented(self) -> bytes:
        """Return the certificate that the server presents to a new connection."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=PATIENCE).encode()


@contextmanager
def running(folder: Path, **environ: str) -> Iterator[TlsStack]:
    copy_golden("image_mean", folder / "models" / "image_mean")
    mount(folder / "tls", 1, AUTHORITY.issue())
    (folder / "authority.pem").write_bytes(AUTHORITY.pem)
    own = {
        "LIGHTBOX_TLS_CERT": str(folder / "tls"),
        "LIGHTBOX_STREAMS": "true",
        GRPC_PORT: str(free_port()),
        "SAGEMAKER_GUNICORN_WORKERS": "1",
        "LIGHTBOX_MAX_BODY_MB": str(MAX_BODY_MB),
        "LIGHTBOX_REQUEST_MEMORY_MB": str(ROOM_MB),
    }
    with TlsStack(folder / "models", folder / "run", own | environ) as stack:
        stack.ca = folder / "authority.pem"
        stack.wait_ready()
        yield stack


@pytest.fixture(scope="module")
def tls_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsStack]:
    with running(tmp_path_factory.mktemp("tls")) as stack:
        yield stack


@pytest.fixture(scope="module")
def mutual_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsStack]:
    """Run a stack that requests client certificates."""
    folder = tmp_path_factory.mktemp("mutual")
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    own = {"LIGHTBOX_TLS_CLIENT_CA": str(folder), "LIGHTBOX_PAGE": "true", "AIP_HEALTH_ROUTE": "/chosen/health"}
    with running(folder, **own) as stack:
        stack.client = write_pair(folder / "client", AUTHORITY.issue("caller.test"))
        yield stack


def test_https_answers_requests_boto3_and_http2(tls_stack: TlsStack) -> None:
    assert tls_stack.call("POST", "/invocations", data=IMAGE, headers=PNG).json() == PREDICTIONS
    runtime = boto3.client(
        "sagemaker-runtime",
        endpoint_url=tls_stack.url,
        verify=str(tls_stack.ca),
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"max_attempts": 0}),
    )
    answer = runtime.invoke_endpoint(EndpointName="any", ContentType="image/png", Body=IMAGE)
    assert json.loads(answer["Body"].read()) == PREDICTIONS
    with tls_stack.http2() as client:
        for body in (IMAGE, iter([IMAGE[:50], IMAGE[50:]])):  # the latter has no Content-Length
            found = client.post("/invocations", content=body, headers=PNG)
            assert (found.http_version, found.status_code, found.json()) == ("HTTP/2", 200, PREDICTIONS)
        assert client.get("/v2/models/image_mean").json()["name"] == "image_mean"
    assert f" s: https://localhost:{tls_stack.port}/invocations" in tls_stack.log


def calls(stack: TlsStack, client: bool = True) -> dict[str, str]:
    """Make a call of each kind at the gRPC port. Return the status of each."""
    pair = [Path(path).read_bytes() for path in stack.shown or ()] if client else []
    credentials = grpc.ssl_channel_credentials(stack.ca.read_bytes(), *reversed(pair))
    found = {}
    with grpc.secure_channel(f"localhost:{stack.environ[GRPC_PORT]}", credentials) as channel:
        made = {
            "Check": channel.unary_unary("/grpc.health.v1.Health/Check"),
            "ServerReady": channel.unary_unary("/inference.GRPCInferenceService/ServerReady"),
            "ModelStreamInfer": channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer"),
        }
        for name, call in made.items():
            try:
                reply = call(b"", timeout=PATIENCE) if name != "ModelStreamInfer" else list(call(iter([b""])))
                found[name] = "OK" if reply else "nothing"
            except grpc.RpcError as error:
                found[name] = error.code().name
    return found


def test_grpc_speaks_tls(tls_stack: TlsStack) -> None:
    assert calls(tls_stack) == dict.fromkeys(("Check", "ServerReady", "ModelStreamInfer"), "OK")
    with grpc.insecure_channel(f"localhost:{tls_stack.environ[GRPC_PORT]}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_grpc_without_a_client_certificate_is_denied_all_but_health(mutual_stack: TlsStack) -> None:
    denied = dict.fromkeys(("ServerReady", "ModelStreamInfer"), "PERMISSION_DENIED")
    assert calls(mutual_stack, client=False) == {"Check": "OK", **denied}
    assert calls(mutual_stack) == dict.fromkeys(("Check", "ServerReady", "ModelStreamInfer"), "OK")


def test_who_does_not_know_the_authority_gets_no_connection(tls_stack: TlsStack) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{tls_stack.url}/ping", timeout=PATIENCE)


@pytest.mark.parametrize("path", ["/ping", "/invocations", "/endpoints/any/invocations"])
def test_plain_http_gets_an_error_that_names_tls(tls_stack: TlsStack, path: str) -> None:
    url = tls_stack.url.replace("https:", "http:") + path
    answer = requests.post(url, data=b"x" * 100_000, timeout=PATIENCE)
    reply = answer.json()
    assert (answer.status_code, reply["code"]) == (400, "bad_request")
    assert reply["error"] == "this port speaks TLS: expected https://, got a request of plain HTTP"
    assert reply["request_id"] == answer.headers["X-Amzn-RequestId"]


def shaken(stack: TlsStack, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    """Return a connection after the TLS handshake. It is for HTTP/1.1 unless the context says otherwise."""
    with ExitStack() as failed:
        connection = failed.enter_context(socket.create_connection(("127.0.0.1", stack.port), PATIENCE))
        found = (context or stack.context()).wrap_socket(connection, server_hostname="localhost")
        failed.pop_all()
        return found


def of_version(stack: TlsStack, version: ssl.TLSVersion, ciphers: str = "DEFAULT:@SECLEVEL=0") -> ssl.SSLSocket:
    """Return a connection with one version of TLS."""
    context = stack.context()
    context.set_ciphers(ciphers)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    return shaken(stack, context)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_it_speaks_mozillas_intermediate_profile(tls_stack: TlsStack) -> None:
    with pytest.raises(ssl.SSLError):
        of_version(tls_stack, ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError):
        of_version(tls_stack, ssl.TLSVersion.TLSv1_2, "AES128-SHA256")
    with pytest.raises(ssl.SSLError):
        of_version(tls_stack, ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256")
    with of_version(tls_stack, ssl.TLSVersion.TLSv1_2) as connection:
        assert (connection.selected_alpn_protocol(), connection.version()) == ("h2", "TLSv1.2")
        assert connection.session is not None
        assert not connection.session.has_ticket
        assert connection.session.id  # for the cache that nginx's workers share
    with of_version(tls_stack, ssl.TLSVersion.TLSv1_3) as connection:
        assert connection.version() == "TLSv1.3"


@contextmanager
def holding(stack: TlsStack, *lengths: int) -> Iterator[None]:
    """Send only the headers of requests with bodies of these lengths, so that they hold room."""
    with ExitStack() as begun:
        for length in lengths:
            connection = begun.enter_context(shaken(stack))
            head = f"POST /invocations HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        yield


@pytest.mark.parametrize("path", ["/invocations", "/endpoints/any/invocations"])
def test_an_http2_body_without_a_length_counts_as_one_of_unknown_length(tls_stack: TlsStack, path: str) -> None:
    with tls_stack.http2() as client:

        def status(size: int, has_length: bool = False) -> tuple[int, str]:
            body = IMAGE + bytes(size - len(IMAGE))
            found = client.post(path, content=body if has_length else iter([body]), headers=PNG)
            reply = found.json()
            reply = json.loads(reply["OriginalMessage"]) if "OriginalMessage" in reply else reply
            assert found.status_code in (200, 424 if path.startswith("/endpoints/") else 503)
            return found.status_code, reply.get("code", "")

        refused = (424 if path.startswith("/endpoints/") else 503, "queue_full")
        with holding(tls_stack, 8 << 20, 5 << 20):  # of 16 MiB: this body counts as 2 MiB and may not grow
            assert status(1000) == (200, "")
            assert status(3 << 20) == refused
        with holding(tls_stack, 8 << 20, 7 << 20):
            assert status(1000) == refused
            assert status(1000, has_length=True) == (200, "")
        # nginx notices a moment later that the callers have hung up.
        assert next(True for _ in poll() if status(3 << 20) == (200, ""))


class Callers:
    """Threads that send one request after another over HTTP/1.1 and HTTP/2, each on a new connection."""

    def __init__(self, stack: TlsStack) -> None:
        self._stack = stack
        self._stop = threading.Event()
        self.answered = 0
        self.lost: list[str] = []
        self._threads = [threading.Thread(target=self._call, args=(http2,)) for http2 in (True, True, False, False)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        """Wait until each thread has begun and ended at least one more request."""
        wanted = self.answered + 3 * len(self._threads)
        for _ in poll():
            if self.answered >= wanted or self.lost:
                return

    def _call(self, over_http2: bool) -> None:
        while not self._stop.is_set():
            try:
                reply = self._over_http2() if over_http2 else self._over_http1()
            except OSError as error:
                reply = repr(error)
            if reply == "200":
                self.answered += 1
            else:
                self.lost.append(reply)

    def _over_http1(self) -> str:
        return str(self._stack.call("POST", "/invocations", data=IMAGE, headers=PNG).status_code)

    def _over_http2(self) -> str:
        """Call with curl: Python's clients mistake nginx's notice that a connection ends for a lost request.

        The notice can come before a new connection's request is taken: curl ends with code 16. RFC 9113, 6.8, lets the
        caller send it again.
        """
        reply = self._by_curl()
        return self._by_curl() if reply.startswith("000curl: (16)") else reply

    def _by_curl(self) -> str:
        body = ["/invocations", "-X", "POST", "--data-binary", "@-", "-H", "Content-Type:image/png"]
        reply = ["--http2", "-sS", "-o", "/dev/null", "-w", "%{http_code}"]
        command = ["curl", *reply, "--cacert", str(self._stack.ca), self._stack.url + body[0], *body[1:]]
        done = subprocess.run(command, input=IMAGE, capture_output=True, check=False)
        return (done.stdout + done.stderr).decode()


def test_a_new_certificate_is_loaded_and_no_request_is_lost(tls_stack: TlsStack) -> None:
    folder = Path(tls_stack.settings["LIGHTBOX_TLS_CERT"])
    head = f"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\nContent-Length: {len(IMAGE)}\r\n\r\n"
    with Callers(tls_stack) as callers, shaken(tls_stack) as begun:
        begun.sendall(head.encode() + IMAGE[:10])
        for number in (2, 3):
            callers.wait_for_more()
            pair = AUTHORITY.issue(f"renewed{number}.test")
            mount(folder, number, pair)
            tls_stack.wait_until(lambda expected=pair[0]: tls_stack.presented() == expected)  # type: ignore[misc]
            callers.wait_for_more()
        begun.sendall(IMAGE[10:])
        assert begun.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert callers.lost == []
    assert tls_stack.log.count("the files have changed, nginx loads them") == 2


def test_a_damaged_pair_leaves_the_old_one(tls_stack: TlsStack) -> None:
    folder = Path(tls_stack.settings["LIGHTBOX_TLS_CERT"])
    before = (folder / "tls.crt").read_bytes()
    reply = "TLS: the files have changed and cannot be used, nginx keeps the old ones:"
    mount(folder, 4, (AUTHORITY.issue()[0], AUTHORITY.issue()[1]))
    tls_stack.wait_until(lambda: reply in tls_stack.log)
    assert "LIGHTBOX_TLS_KEY: expected the key of the certificate in " in tls_stack.log
    # A worker that is about to exit may answer with the previous certificate.
    tls_stack.wait_until(lambda: tls_stack.presented() == before)
    pair = AUTHORITY.issue()
    mount(folder, 5, pair)
    tls_stack.wait_until(lambda: tls_stack.presented() == pair[0])


@pytest.mark.parametrize("name", ["tls_stack", "mutual_stack"])
def test_frames_of_a_stream_are_answered(name: str, request: pytest.FixtureRequest) -> None:
    stack: TlsStack = request.getfixturevalue(name)
    url = stack.url.replace("https:", "wss:") + ROUTE

    async def answer() -> Any:
        # Not the threaded client: its two threads use one OpenSSL connection at once, which loses requests.
        async with connect(url, ssl=stack.context(), compression=None, open_timeout=PATIENCE) as stream:
            await stream.send(frame(3))
            return json.loads(await stream.recv())["answer"]

    assert asyncio.run(answer()) == PREDICTIONS


@pytest.mark.parametrize("name", ["tls_stack", "mutual_stack"])
def test_the_images_health_check_knows_tls(name: str, request: pytest.FixtureRequest) -> None:
    stack: TlsStack = request.getfixturevalue(name)
    script = REPOSITORY / "container" / "healthcheck.sh"

    def code(port: int) -> int:
        environ = {**os.environ, **stack.settings, "SAGEMAKER_BIND_TO_PORT": str(port)}
        return subprocess.run([script], env=environ, check=False).returncode

    assert code(stack.port) == 0
    assert code(stack.ports[1] + 50) == 1  # no process listens there


ROUTES = [
    "/",
    "/ui/",
    "/invocations",
    "/endpoints/any/invocations",
    "/models",
    "/models/image_mean/invoke",
    "/v1/models/image_mean",
    "/v2",
    "/v2/health",
    "/v2/models/image_mean/infer",
    "/metrics",
    "/openapi.json",
    "/internal/probe",
    "/nowhere",
    ROUTE,
    # Similar to a probe's path, but different.
    "/ping/",
    "/ping%0A",
    "/ping%00",
    "/PING",
    "/ping/../invocations",
    "/v2/health/ready/x",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/x",
    "/nginx-room",
    "/nginx-refusal/%0A",
]


@each(
    ("path", "method"),
    [*((path, "POST") for path in ROUTES), *(("/invocations", method) for method in ("GET", "HEAD", "DELETE"))],
)
def test_without_a_client_certificate_all_but_probes_is_403(mutual_stack: TlsStack, path: str, method: str) -> None:
    answers: list[Any] = [mutual_stack.call(method, path, client=False)]
    with mutual_stack.http2(client=False) as client:
        answers.append(client.request(method, path))
    for answer in answers:
        if path == "/ping%00":
            assert answer.status_code == 400
            continue
        assert answer.status_code == 403
        assert answer.headers["X-Amzn-RequestId"]
        if method != "HEAD":
            reply = assert_error(answer.status_code, answer.headers, answer.content, "", "permission_denied")
            assert reply == "expected a client certificate of the authority that this server trusts, got none"


@pytest.mark.parametrize(
    "path", ["/ping", "//ping", "/./ping", "/v2/health/live", "/v2/health/ready", "/chosen/health"]
)
def test_probes_need_no_client_certificate(mutual_stack: TlsStack, path: str) -> None:
    assert mutual_stack.call("GET", path, client=False).status_code == 200
    assert mutual_stack.call("GET", path).status_code == 200


def test_a_large_body_without_a_client_certificate_is_refused_before_it_is_read(mutual_stack: TlsStack) -> None:
    with shaken(mutual_stack, mutual_stack.context(client=False)) as connection:
        connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 403 ")


def test_with_a_client_certificate_all_is_as_ever(mutual_stack: TlsStack) -> None:
    assert mutual_stack.call("POST", "/invocations", data=IMAGE, headers=PNG).json() == PREDICTIONS
    with mutual_stack.http2() as client:
        assert client.post("/invocations", content=IMAGE, headers=PNG).json() == PREDICTIONS
    assert mutual_stack.call("GET", "/ui/").status_code == 200
    assert "lightbox_requests_total" in mutual_stack.call("GET", "/metrics").text
    assert mutual_stack.call("GET", "/nowhere").status_code == 404


def resumed(stack: TlsStack, version: ssl.TLSVersion) -> bool:
    """Return whether a second connection can resume the session of a first one."""
    context = stack.context()
    context.minimum_version = context.maximum_version = version
    session, reused = None, False
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", stack.port), PATIENCE) as connection:
            connected = context.wrap_socket(connection, server_hostname="localhost", session=session)
            with connected as found:
                found.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert found.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
                session, reused = found.session, bool(found.session_reused)  # TLS 1.3 sends it after the first bytes
                while found.recv(1 << 16):  # only a session of a cleanly closed connection can be resumed
                    pass
    return reused


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_outlives_what_its_client_certificate_proves(
    tls_stack: TlsStack, mutual_stack: TlsStack, version: ssl.TLSVersion
) -> None:
    assert resumed(tls_stack, version)
    assert not resumed(mutual_stack, version)


def test_a_start_says_who_may_call_and_where_tls_is_spoken(mutual_stack: TlsStack) -> None:
    port, grpc_port = mutual_stack.port, mutual_stack.environ[GRPC_PORT]
    assert (
        f"no keys are set: every holder of a client certificate who reaches port {port} or {grpc_port} may use it"
        in mutual_stack.log
    )
    assert f"port {grpc_port} on all interfaces: the Open Inference Protocol over gRPC over TLS" in mutual_stack.log


@pytest.mark.parametrize(
    ("authority", "days", "path"),
    [(STRANGER, 30, "/ping"), (STRANGER, 30, "/endpoints/any/invocations"), (AUTHORITY, -1, "/invocations")],
    ids=["another's", "another's at the endpoint's route", "expired"],
)
def test_a_wrong_client_certificate_is_400(
    mutual_stack: TlsStack, tmp_path: Path, authority: Authority, days: int, path: str
) -> None:
    shown = write_pair(tmp_path, authority.issue("caller.test", days))
    cert = (str(shown / "tls.crt"), str(shown / "tls.key"))
    answer = requests.post(mutual_stack.url + path, verify=str(mutual_stack.ca), cert=cert, timeout=PATIENCE)
    reply = answer.json()
    assert (answer.status_code, reply["code"]) == (400, "bad_request")
    assert reply["error"].startswith("the client certificate was refused: ")
    assert reply["request_id"] == answer.headers["X-Amzn-RequestId"]


def test_malformed_requests_are_reported(mutual_stack: TlsStack) -> None:
    with shaken(mutual_stack, mutual_stack.context(client=False)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
        answer = connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the request is not well-formed HTTP" in answer


def test_the_refusals_are_logged_and_counted(mutual_stack: TlsStack) -> None:
    def counted() -> int:
        page = mutual_stack.call("GET", "/metrics").text
        return sum(int(float(found)) for found in re.findall(r'reason="permission_denied".*? ([\d.]+)$', page, re.M))

    before = counted()
    reply = mutual_stack.call("GET", "/v2", client=False).json()
    mutual_stack.wait_until(lambda: counted() == before + 1)
    (line,) = mutual_stack.lines_with(f"request_id={reply['request_id']} ")
    assert " status=403 " in line
    assert " error=permission_denied " in line
