"""Who may come in: by a key of the file, or as a URL says."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote, urlsplit

from lightbox.core.errors import PermissionDenied, Unauthenticated, Unavailable
from lightbox.core.request_context import Header
from lightbox.features.access.keys import KeyFile
from lightbox.features.access.roles import role_of
from lightbox.processes.additions import IncomingRequest, headers_of

ANY = "*"
URL_SECONDS = 5.0
"""How long the URL may take for all of an answer."""
_AT_ONCE = 64
"""Questions to the URL; others wait, and their time passes."""
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})\b")
_PLAIN = re.compile("[A-Za-z0-9._@-]{1,64}")
"""What a name may be that the URL gives a caller: the log has it."""
_KEPT_BACK = re.compile(
    "host|connection|content-.*|transfer-encoding|accept-encoding|range|if-.*|x-forwarded-.*|x-lightbox-.*|sec-websocket-.*",
    re.IGNORECASE,
)
"""Headers that are about another body or connection, that ask for something but an answer, or that are ours."""


class KeyAuthenticator:
    """Lets in who has a key of the role that the path needs; ``let_in`` counts requests by name."""

    def __init__(self, keys: KeyFile, loads_models: bool, origins: Sequence[str]) -> None:
        self.keys = keys
        self._loads_models = loads_models
        self._origins = origins
        self._let_in: Counter[str] = Counter()

    @property
    def let_in(self) -> Mapping[str, float]:
        """How many requests of each name of the file were let in."""
        return {name: self._let_in[name] for name in self.keys.names()}

    async def __call__(self, asked: IncomingRequest) -> str:
        """Return the name of the caller's key. Raises Unauthenticated and PermissionDenied."""
        check_origin(asked.header, self._origins)
        name, key = given_key(asked.header)
        if not key:
            raise Unauthenticated(
                "expected a key: Authorization: Bearer KEY, X-API-Key: KEY, or Basic with its name; got none"
            )
        caller = self.keys.find(key.encode("latin-1"))
        if caller is None or name not in (None, caller.name):
            raise Unauthenticated("the key is not known here, or not by the name that came with it")
        role = role_of(asked.path, self._loads_models)
        if role not in caller.roles:
            has = ", ".join(sorted(caller.roles))
            raise PermissionDenied(f"the key {caller.name!r} has the roles {has}; this takes {role}", caller.name)
        self._let_in[caller.name] += 1
        return caller.name


def given_key(header: Header) -> tuple[str | None, str]:
    """Return the name that Basic has, None elsewhere, and the key, "" for none.

    boto3 signs each request: an Authorization of another scheme says nothing.
    """
    scheme, _, rest = (header("Authorization") or "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return None, rest.strip()
    if scheme.lower() == "basic":
        try:
            name, _, key = base64.b64decode(rest.strip(), validate=True).decode("latin-1").partition(":")
        except (binascii.Error, ValueError):
            return None, ""
        return name, key
    return None, (header("X-API-Key") or "").strip()


def check_origin(header: Header, allowed: Sequence[str]) -> None:
    """Raise PermissionDenied for another site's page that is not ``allowed`` to ask.

    A browser sends with it what it keeps for Lightbox: a name and key that a person gave the page, or a cookie. With
    WebSockets and simple POSTs it asks no preflight. So ANY allows only requests without these.
    """
    origin, scheme = header("Origin"), (header("Authorization") or "").partition(" ")[0].lower()
    if origin is None or origin.lower() in allowed or origin.partition("://")[2] == header("Host"):
        return
    if ANY not in allowed or scheme == "basic" or header("Cookie") is not None:
        raise PermissionDenied(f"Origin: expected this host's or one of LIGHTBOX_CORS_ORIGINS, got {origin!r}")


class UrlAuthenticator:
    """Asks a URL about each request: 2xx lets it in, 401 and 403 refuse it."""

    def __init__(self, url: str, loads_models: bool, origins: Sequence[str]) -> None:
        self._url = url
        self._loads_models = loads_models
        self._origins = origins
        self._tls = ssl.create_default_context() if url.startswith("https:") else None
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        """Connections that are kept for the next questions."""

    async def __call__(self, asked: IncomingRequest) -> str:
        """Return the name that the URL gives the caller, "" for none that is plain.

        Raises Unauthenticated, PermissionDenied, and Unavailable where the URL does not tell.
        """
        check_origin(asked.header, self._origins)
        if not asked.path:
            raise PermissionDenied("path: expected no control characters, got one: LIGHTBOX_AUTH_URL is not asked")
        headers = {name: value for name, value in asked.headers.items() if not _KEPT_BACK.fullmatch(name)}
        headers["X-Forwarded-Method"] = asked.method
        headers["X-Forwarded-Uri"] = quote(asked.path.encode("latin-1"))
        headers["X-Lightbox-Role"] = role_of(asked.path, self._loads_models)
        try:
            async with asyncio.timeout(URL_SECONDS), self._turns:
                status, name = await self._ask(headers)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unavailable(f"try again: LIGHTBOX_AUTH_URL does not answer: {type(error).__name__}") from error
        if status == 401:
            raise Unauthenticated("LIGHTBOX_AUTH_URL does not know who asks: it answered 401")
        if status == 403:
            raise PermissionDenied("LIGHTBOX_AUTH_URL does not allow it: it answered 403")
        if not 200 <= status <= 299:
            raise Unavailable(f"try again: LIGHTBOX_AUTH_URL: expected 2xx, 401 or 403, got {status}")
        return name if _PLAIN.fullmatch(name) else ""

    async def _ask(self, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return status and X-Auth-Name.

        Not with a library in threads: a thread that waits for an answer cannot be ended, and a stop would wait for it.
        """
        url = urlsplit(self._url)
        target = quote(f"{url.path or '/'}{url.query and '?'}{url.query}", safe=string.punctuation)
        lines = [f"GET {target} HTTP/1.1", f"Host: {url.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        while self.idle:
            reader, writer = self.idle.pop()
            if reader._buffer:  # type: ignore[attr-defined]  # what has come is no answer to this question
                writer.transport.abort()
                continue
            with suppress(OSError, EOFError):  # the other side may have closed it
                return await self._ask_over(reader, writer, request)
        port = url.port or (443 if self._tls else 80)
        return await self._ask_over(*await asyncio.open_connection(url.hostname, port, ssl=self._tls), request)

    async def _ask_over(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> tuple[int, str]:
        """Ask over a connection, and keep it unless a body follows, which is not read."""
        keeps = False
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            begun = _STATUS.match(head)
            if begun is None:
                raise ValueError("expected a status line of HTTP/1")
            status, headers = int(begun[2]), headers_of(head)
            is_empty = status == 204 or headers.get("content-length") == "0"
            keeps = is_empty and begun[1] == b"1" and headers.get("connection", "").lower() != "close"
        finally:
            if keeps:
                self.idle.append((reader, writer))
            else:
                writer.transport.abort()
        return status, headers.get("x-auth-name", "")
