"""Pages of other sites in a browser, and callers beside each other: neither reaches what is another's."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest
import requests

from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.models import copy_golden
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack, free_port, running
from support.streams import ROUTE, frame, opened, received

pytestmark = pytest.mark.extended

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
APP, EVIL = "https://app.example.com", "evil.example"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack without keys, as on a developer's machine."""
    folder = tmp_path_factory.mktemp("pages")
    copy_golden("image_mean", folder / "models" / "image_mean")
    environ = {
        "LIGHTBOX_STREAMS": "true",
        "LIGHTBOX_SESSIONS": "true",
        "LIGHTBOX_CORS_ORIGINS": APP,
        "LIGHTBOX_HOSTS": "localhost, 127.0.0.1, *.Example.com, [::1]",
        GRPC_PORT: str(free_port()),
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


def handshake(stack: Stack, **sent: str) -> tuple[int, str]:
    """Return status and body of the answer to a browser's opening of a stream."""
    fixed = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with closing(http.client.HTTPConnection("127.0.0.1", stack.port, timeout=PATIENCE)) as connection:
        connection.request("GET", f"{ROUTE}?tfs-model-name=image_mean", headers=fixed | key | sent)
        answer = connection.getresponse()
        return answer.status, "" if answer.status == 101 else answer.read().decode()


def test_a_page_of_another_site_opens_no_stream_without_keys_either(local: Stack) -> None:
    own = f"localhost:{local.port}"
    for sent in ({}, {"Origin": local.url}, {"Origin": APP}, {"Origin": f"http://{own}", "Host": own}):
        assert handshake(local, **sent)[0] == 101
    with opened(local, "tfs-model-name=image_mean", additional_headers={"Origin": APP}) as stream:
        stream.send(frame(9))
        assert received(stream)["status"] == 200
    for origin in (f"https://{EVIL}", "null", f"{local.url}.{EVIL}", f"{APP}.{EVIL}", f"{APP}@{EVIL}", "http://a|b"):
        status, text = handshake(local, Origin=origin)
        expected = f"Origin: expected this host's or one of LIGHTBOX_CORS_ORIGINS, got {origin!r}"
        assert (status, json.loads(text)["error"]) == (403, expected)


@each("path", ["/v2/models/image_mean", "/metrics", "/invocations", "/nowhere", "/endpoints/a/invocations"])
def test_a_host_that_is_not_listed_gets_nothing(local: Stack, path: str) -> None:
    for host in (EVIL, f"{EVIL}:1", f"localhost.{EVIL}", "example.com", "10.0.0.1"):
        answer = requests.get(local.url + path, headers={"Host": host}, timeout=PATIENCE)
        assert answer.status_code == 421, (host, answer.text)
        assert answer.json()["error"].startswith("Host: expected one of LIGHTBOX_HOSTS, got ")


def test_listed_hosts_and_health_checks_are_served(local: Stack) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:1", "a.b.example.com", "[::1]:1"):
        answer = requests.get(f"{local.url}/v2/models/image_mean", headers={"Host": host}, timeout=PATIENCE)
        assert answer.status_code == 200, (host, answer.text)
    assert requests.get(f"{local.url}/ping", headers={"Host": EVIL}, timeout=PATIENCE).status_code == 200
    assert handshake(local, Host=EVIL, Origin=f"http://{EVIL}")[0] == 421


def test_a_host_over_grpc(local: Stack) -> None:
    address = f"127.0.0.1:{local.environ[GRPC_PORT]}"
    with grpc.insecure_channel(address, [("grpc.default_authority", EVIL)]) as channel:
        live = channel.unary_unary(f"/{grpc_messages.INFERENCE_SERVICE}/ServerLive")
        with pytest.raises(grpc.RpcError, match="Host: expected one of LIGHTBOX_HOSTS"):
            live(b"", timeout=PATIENCE)
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE)
    with grpc.insecure_channel(address) as channel:
        assert channel.unary_unary(f"/{grpc_messages.INFERENCE_SERVICE}/ServerLive")(b"", timeout=PATIENCE)


def open_session(connection: http.client.HTTPConnection) -> tuple[int, str]:
    connection.request("POST", "/invocations", b'{"requestType":"NEW_SESSION"}', {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_one_address_leaves_half_of_the_sessions_to_others(local: Stack) -> None:
    with (
        closing(http.client.HTTPConnection("127.0.0.1", local.port, timeout=PATIENCE)) as greedy,
        closing(http.client.HTTPConnection("127.0.0.1", local.port, PATIENCE, ("127.0.0.2", 0))) as other,
    ):
        assert {open_session(greedy)[0] for _ in range(500)} == {200}
        status, text = open_session(greedy)
        assert (status, "500 sessions of this caller are open" in text) == (503, True)
        status, text = open_session(other)
        assert status == 200
        session = {"X-Amzn-SageMaker-Session-Id": json.loads(text)["session"]}  # known: an address is no key
        assert local.invoke(b'{"requestType":"CLOSE"}', Content_Type="application/json", **session).status_code == 200
