"""Authentication by header, role and origin, and by the response of a URL."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lightbox.base.errors import StartError, Unauthenticated
from lightbox.core.additions import Authenticator, IncomingRequest
from lightbox.features import FEATURES
from lightbox.features.access import REQUESTS, Access, authenticators
from lightbox.features.access.authenticators import KeyAuthenticator, UrlAuthenticator
from lightbox.features.access.roles import INFER, MANAGE, role_of
from lightbox.serving.settings_loading import SettingsError, load_settings
from support.certificates import Authority, write_pair
from support.http_server import EmptyPage, QuietHandler, serving
from support.keys import basic, key_line, outcome_of
from support.parameters import each


def outcome(authenticator: Authenticator, path: str = "/invocations", method: str = "POST", **headers: str) -> str:
    """Return the caller's name, or the code of the refusal. Header names have underscores for hyphens."""
    sent = {name.lower().replace("_", "-"): value for name, value in headers.items()}
    return outcome_of(authenticator, IncomingRequest(method, path, sent))


class Keys:
    """An authenticator for a file of three keys, and its feature."""

    def __init__(self, folder: Path, **environ: str) -> None:
        file = folder / "keys"
        file.write_text(
            key_line("ci", "k1") + key_line("watch", "k2", "metrics") + key_line("boss", "kä:3", "infer,metrics,manage")
        )
        self.feature = Access(FEATURES)
        authenticator = self.feature.authenticator(load_settings({"LIGHTBOX_API_KEYS": str(file), **environ}))
        assert isinstance(authenticator, KeyAuthenticator)
        self.authenticator = authenticator
        self.look = authenticator.keys.look


@each(
    ("headers", "expected"),
    [
        ({}, "unauthenticated"),
        ({"Authorization": "Bearer k1"}, "ci"),
        ({"Authorization": "bearer   k1 "}, "ci"),
        ({"X_API_Key": "k1"}, "ci"),
        ({"x_api_key": " k1 "}, "ci"),
        ({"Authorization": basic("ci", "k1")}, "ci"),
        ({"Authorization": basic("boss", "kä:3")}, "boss"),
        ({"Authorization": basic("boss", "k1")}, "unauthenticated"),
        ({"Authorization": basic("", "k1")}, "unauthenticated"),
        ({"Authorization": "Basic !!!"}, "unauthenticated"),
        ({"Authorization": "Basic"}, "unauthenticated"),
        ({"Authorization": "Bearer"}, "unauthenticated"),
        ({"Authorization": "Bearer "}, "unauthenticated"),
        ({"Authorization": "k1"}, "unauthenticated"),
        ({"Authorization": "Bearer K1"}, "unauthenticated"),
        ({"Authorization": "AWS4-HMAC-SHA256 Credential=none/x, Signature=00"}, "unauthenticated"),
        ({"Authorization": "AWS4-HMAC-SHA256 Credential=none/x, Signature=00", "X_API_Key": "k1"}, "ci"),
        ({"Authorization": "Bearer wrong", "X_API_Key": "k1"}, "unauthenticated"),
        ({"Authorization": "Bearer k2"}, "permission_denied"),
        ({"X_Lightbox_Caller": "boss"}, "unauthenticated"),
    ],
)
def test_the_header_that_has_the_key(tmp_path: Path, headers: dict[str, str], expected: str) -> None:
    assert outcome(Keys(tmp_path).authenticator, **headers) == expected


def test_requests_are_counted_by_the_names_of_the_file(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    for key in ("k1", "k1", "k2", "wrong"):
        outcome(keys.authenticator, X_API_Key=key)
    assert keys.feature.measure(tmp_path)[REQUESTS] == {"ci": 2, "watch": 0, "boss": 0}
    (tmp_path / "keys").write_text(key_line("new", "k4"))
    keys.look()
    outcome(keys.authenticator, X_API_Key="k4")
    assert keys.feature.measure(tmp_path)[REQUESTS] == {"new": 1}


MULTI_ONLY = [
    "/models",
    "/models/",
    "/models/m",
    "/models/m/",
    "/models/m/invoke/",
    "/models/m/other",
    "/models//invoke",
    "/v2/repository/index",
    "/v2/repository/models/m/load",
    "/v2/repository/models/m/unload",
    "/v2/repository",
    "/inference.GRPCInferenceService/RepositoryIndex",
    "/inference.GRPCInferenceService/RepositoryModelLoad",
    "/inference.GRPCInferenceService/RepositoryModelUnload",
    "",
]


@each("path", MULTI_ONLY)
def test_what_manages_models_is_a_role_where_models_come_and_go(path: str) -> None:
    assert (role_of(path, Access(FEATURES).managing), role_of(path, None)) == (MANAGE, INFER)


OWN = {"Host": "box:8080", "X_API_Key": "k1"}


@each(
    ("cors", "headers", "expected"),
    [
        ("", {"Origin": "http://box:8080"}, "ci"),
        ("", {"Origin": "https://box:8080"}, "ci"),
        ("", {"Origin": "http://box"}, "permission_denied"),
        ("", {"Origin": "null"}, "permission_denied"),
        ("", {"Origin": "https://app.example.com"}, "permission_denied"),
        ("https://app.example.com", {"Origin": "https://app.example.com"}, "ci"),
        ("https://app.example.com", {"Origin": "https://app.example.com", "Authorization": basic("ci", "k1")}, "ci"),
        ("https://app.example.com", {"Origin": "https://app.example.com.evil"}, "permission_denied"),
        ("*", {"Origin": "https://evil"}, "ci"),
        ("*", {"Origin": "https://evil", "Authorization": basic("ci", "k1")}, "permission_denied"),
        ("*", {"Origin": "https://evil", "Cookie": "a=b"}, "permission_denied"),
    ],
)
def test_a_page_of_another_site_uses_nobodys_key(
    tmp_path: Path, cors: str, headers: dict[str, str], expected: str
) -> None:
    assert outcome(Keys(tmp_path, LIGHTBOX_CORS_ORIGINS=cors).authenticator, **(OWN | headers)) == expected


class Decider:
    """A URL that records its requests. A test sets the response."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[Mapping[str, str]] = []
        self.url = ""


@pytest.fixture
def decider() -> Iterator[Decider]:
    found = Decider()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.asked.append(dict(self.headers.items()))
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as found.url:
        yield found


def by_url(url: str, **environ: str) -> UrlAuthenticator:
    authenticator = Access(FEATURES).authenticator(load_settings({"LIGHTBOX_AUTH_URL": url, **environ}))
    assert isinstance(authenticator, UrlAuthenticator)
    return authenticator


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ""),
        (204, ""),
        (401, "unauthenticated"),
        (403, "permission_denied"),
        (302, "unavailable"),
        (304, "unavailable"),
        (404, "unavailable"),
        (500, "unavailable"),
    ],
)
def test_a_url_decides(decider: Decider, status: int, expected: str) -> None:
    decider.status, decider.headers = status, {"Location": "/elsewhere"}
    assert outcome(by_url(f"{decider.url}/check"), Authorization="Bearer jwt") == expected
    assert len(decider.asked) == 1


def test_the_url_gets_what_the_caller_sent_and_where_it_goes(decider: Decider) -> None:
    sent = {
        "Authorization": "Bearer jwt",
        "Cookie": "a=b",
        "X_Team": "vision",
        "Host": "box",
        "If_None_Match": "x",
        "Content_Type": "image/png",
        "X_Forwarded_Uri": "/ping",
        "X_Lightbox_Role": "infer",
    }
    authenticator = by_url(decider.url, SAGEMAKER_MULTI_MODEL="true")
    assert outcome(authenticator, "/models/a b", "DELETE", **sent) == ""
    (asked,) = decider.asked
    assert {name: asked.get(name) for name in ("authorization", "cookie", "x-team")} == {
        "authorization": "Bearer jwt",
        "cookie": "a=b",
        "x-team": "vision",
    }
    assert (asked["X-Forwarded-Method"], asked["X-Forwarded-Uri"]) == ("DELETE", "/models/a%20b")
    assert asked["X-Lightbox-Role"] == MANAGE
    assert not {"if-none-match", "content-type", "x-lightbox-role"} & asked.keys()
    assert asked["Host"] != "box"


@pytest.mark.parametrize(
    ("name", "expected"), [("ann@b.c", "ann@b.c"), ("a b", ""), ("x" * 65, ""), ("a\tstatus=200", "")]
)
def test_the_name_that_the_url_gives_is_a_plain_word(decider: Decider, name: str, expected: str) -> None:
    decider.headers = {"X-Auth-Name": name}
    assert outcome(by_url(decider.url)) == expected


def test_the_url_is_not_asked_about_a_path_that_it_cannot_get(decider: Decider) -> None:
    assert outcome(by_url(decider.url), "", Authorization="Bearer jwt") == "permission_denied"
    assert decider.asked == []


HEAD = b"HTTP/1.1 200 OK\r\nX-Auth-Name: ann\r\n"


@contextmanager
def speaking(begin: bytes, again: bytes = b"") -> Iterator[str]:
    """Respond with ``begin``, then with ``again`` for ever; yield the URL."""
    ended = threading.Event()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                self.wfile.write(begin)
                while not ended.wait(0 if len(again) > 1 else 0.02):
                    self.wfile.write(again)
            self.close_connection = True

    with serving(Handler) as url:
        try:
            yield url
        finally:
            ended.set()


def waited_for() -> set[threading.Thread]:
    """Return the threads that this process joins at exit."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


@pytest.mark.parametrize(
    ("begin", "again"),
    [(b"", b""), (HEAD, b"x"), (HEAD, b"X-Long: " + b"x" * 10_000), (b"", b"x"), (b"SSH-2.0-x\r\n\r\n", b"")],
    ids=["silent", "dripping", "endless", "dripping a status", "another protocol"],
)
def test_without_an_answer_nobody_comes_in_and_nothing_waits(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, again: bytes
) -> None:
    monkeypatch.setattr(authenticators, "URL_SECONDS", 0.5)
    with speaking(begin, again) as url:
        before = waited_for()
        assert outcome(by_url(url)) == "unavailable"
        assert waited_for() <= before


@pytest.mark.parametrize("again", [b"x", b"x" * 10_000], ids=["drips", "does not end"])
def test_a_body_is_not_waited_for(again: bytes) -> None:
    with speaking(HEAD + b"\r\n", again) as url:
        assert outcome(by_url(url)) == "ann"


def test_where_nobody_listens_nobody_comes_in(closed_port: int) -> None:
    assert outcome(by_url(f"http://127.0.0.1:{closed_port}")) == "unavailable"


def test_a_connection_is_kept_and_one_that_was_closed_is_replaced() -> None:
    connections: list[Any] = []

    class Handler(EmptyPage):
        @override
        def do_GET(self) -> None:
            if self.connection not in connections:
                connections.append(self.connection)
            super().do_GET()

    async def ask() -> None:
        assert (await authenticator(IncomingRequest("GET", "/", {}))).name == ""

    with serving(Handler) as url, asyncio.Runner() as runner:
        authenticator = by_url(url)
        runner.run(ask())
        runner.run(ask())
        assert len(connections) == 1
        connections[0].shutdown(socket.SHUT_RDWR)
        runner.run(ask())
        assert len(connections) == 2
        (_, kept) = authenticator.idle.pop()
        kept.transport.abort()


def test_what_comes_unasked_is_no_answer() -> None:
    class Handler(EmptyPage):
        @override
        def do_GET(self) -> None:
            if self.headers["authorization"] == "good":
                self.wfile.write(2 * b"HTTP/1.1 204 OK\r\n\r\n")
            else:
                self.status = 401
                super().do_GET()

    async def ask(authorization: str) -> str:
        return (await authenticator(IncomingRequest("GET", "/", {"authorization": authorization}))).name

    with serving(Handler) as url, asyncio.Runner() as runner:
        authenticator = by_url(url)
        assert runner.run(ask("good")) == ""
        with pytest.raises(Unauthenticated):
            runner.run(ask("wrong"))
        (_, kept) = authenticator.idle.pop()
        kept.transport.abort()


def test_an_answer_over_tls_is_taken_of_whom_an_authority_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    pair = write_pair(tmp_path, authority.issue())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair / "tls.crt", pair / "tls.key")
    with serving(EmptyPage, tls=context) as url:
        assert outcome(by_url(url)) == "unavailable"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert outcome(by_url(url)) == ""


def test_a_page_of_another_site_is_refused_before_the_url_is_asked(decider: Decider) -> None:
    assert outcome(by_url(decider.url), Host="box", Origin="http://evil", Cookie="a=b") == "permission_denied"
    assert decider.asked == []


@each(
    ("environ", "sentence"),
    [
        ({"LIGHTBOX_API_KEYS": "/keys", "LIGHTBOX_AUTH_URL": "http://a"}, "LIGHTBOX_AUTH_URL: expected no URL beside"),
        ({"LIGHTBOX_AUTH_URL": "auth:9000"}, "LIGHTBOX_AUTH_URL: expected a URL with http or https"),
        ({"LIGHTBOX_AUTH_URL": "http://"}, "LIGHTBOX_AUTH_URL: expected a URL"),
        ({"LIGHTBOX_AUTH_URL": "http://:80"}, "LIGHTBOX_AUTH_URL: expected a URL"),
        ({"LIGHTBOX_AUTH_URL": "http://auth:99999"}, "LIGHTBOX_AUTH_URL: expected a URL"),
        ({"LIGHTBOX_CORS_ORIGINS": "app.example.com"}, "LIGHTBOX_CORS_ORIGINS: expected .*, got 'app.example.com'"),
        ({"LIGHTBOX_CORS_ORIGINS": "https://a/path"}, "LIGHTBOX_CORS_ORIGINS: expected"),
        ({"LIGHTBOX_CORS_ORIGINS": "*,https://a"}, "LIGHTBOX_CORS_ORIGINS: expected"),
        ({"LIGHTBOX_CORS_ORIGINS": ","}, "LIGHTBOX_CORS_ORIGINS: expected"),
    ],
)
def test_settings_that_make_no_sense_are_named(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load_settings(environ)


def test_a_file_that_cannot_be_used_stops_a_start(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    settings = load_settings({"LIGHTBOX_API_KEYS": str(file)})
    with pytest.raises(StartError, match=f"LIGHTBOX_API_KEYS: {file}: No such file"):
        Access(FEATURES).check(settings)
    file.write_text("ci\n")
    with pytest.raises(StartError, match=f"LIGHTBOX_API_KEYS: {file}: line 1: expected a name"):
        Access(FEATURES).check(settings)
