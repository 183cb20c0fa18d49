"""Authentication of requests: by a key of the file, or by a URL."""

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

from lightbox.base.errors import PermissionDenied, RateLimited, Unauthenticated, Unavailable
from lightbox.base.plain_http import headers_of
from lightbox.base.request_context import Header
from lightbox.core.additions import Admitted, IncomingRequest
from lightbox.features.access.keys import KeyFile
from lightbox.features.access.quotas import Quotas
from lightbox.features.access.roles import role_of
from lightbox.nginx.refusals import foreign

ANY = "*"
URL_SECONDS = 5.0
"""Seconds that the URL has for its whole response."""
_AT_ONCE = 64
"""Concurrent requests to the URL; further ones wait, until their deadline."""
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})\b")
_PLAIN = re.compile("[A-Za-z0-9._@-]{1,64}")
"""The allowed form of a caller's name from the URL, as it is logged."""
_KEPT_BACK = re.compile(
    "host|connection|content-.*|transfer-encoding|accept-encoding|range|if-.*|x-forwarded-.*|x-lightbox-.*|sec-websocket-.*",
    re.IGNORECASE,
)
"""Headers about another body or connection, headers that change the response's form, and our own."""


class KeyAuthenticator:
    """Admits callers with a key of the path's role; ``let_in`` counts requests by name."""

    def __init__(self, keys: KeyFile, managing: re.Pattern[str] | None, origins: Sequence[str]) -> None:
        self.keys = keys
        self._managing = managing
        self._origins = origins
        self._let_in: Counter[str] = Counter()
        self._quotas = Quotas()

    @property
    def let_in(self) -> Mapping[str, float]:
        """The number of admitted requests by name in the file."""
        return {name: self._let_in[name] for name in self.keys.names()}

    @property
    def limited(self) -> Mapping[str, float]:
        """The number of requests beyond a rate by name in the file."""
        return {name: self._quotas.refused[name] for name in self.keys.names()}

    async def __call__(self, request: IncomingRequest) -> Admitted:
        """Return the name of the caller's key. Raises Unauthenticated, PermissionDenied and RateLimited."""
        check_origin(request.header, self._origins)
        name, key = given_key(request.header)
        if not key:
            raise Unauthenticated(
                "expected a key: Authorization: Bearer KEY, X-API-Key: KEY, or Basic with its name; got none"
            )
        caller = self.keys.find(key.encode("latin-1"))
        if caller is None or name not in (None, caller.name):
            raise Unauthenticated("the key is unknown, or belongs to another name")
        role = role_of(request.path, self._managing)
        if role not in caller.roles:
            has = ", ".join(sorted(caller.roles))
            raise PermissionDenied(f"the key {caller.name!r} has the roles {has}; this takes {role}", caller.name)
        try:
            headers = self._quotas.take(caller)
        except RateLimited:
            await self._quotas.pauses.wait()
            raise
        self._let_in[caller.name] += 1
        return Admitted(caller.name, caller.at_once, caller.batch, headers)


def given_key(header: Header) -> tuple[str | None, str]:
    """Return the name in Basic, None elsewhere, and the key, "" if absent.

    boto3 signs each request: an Authorization of another scheme is ignored.
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
    """Raise PermissionDenied for a page of another site that is not ``allowed``.

    The browser adds credentials that it stores for Lightbox: a name and key, or a cookie. WebSockets and simple POSTs
    have no preflight. So ANY allows only requests without credentials.
    """
    origin, scheme = header("Origin"), (header("Authorization") or "").partition(" ")[0].lower()
    if origin is None or origin.lower() in allowed or origin.partition("://")[2] == header("Host"):
        return
    if ANY not in allowed or scheme == "basic" or header("Cookie") is not None:
        raise foreign(origin)


class UrlAuthenticator:
    """Sends each request's headers to a URL: 2xx admits it, 401 and 403 refuse it."""

    def __init__(self, url: str, managing: re.Pattern[str] | None, origins: Sequence[str]) -> None:
        self._url = url
        self._managing = managing
        self._origins = origins
        self._tls = ssl.create_default_context() if url.startswith("https:") else None
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        """Idle connections for the next requests."""

    async def __call__(self, request: IncomingRequest) -> Admitted:
        """Return the URL's name for the caller, "" for one of another form.

        Raises Unauthenticated, PermissionDenied, and Unavailable if the URL does not decide.
        """
        check_origin(request.header, self._origins)
        if not request.path:
            raise PermissionDenied("path: expected no control characters, got one: LIGHTBOX_AUTH_URL is not called")
        headers = {name: value for name, value in request.headers.items() if not _KEPT_BACK.fullmatch(name)}
        headers["X-Forwarded-Method"] = request.method
        headers["X-Forwarded-Uri"] = quote(request.path.encode("latin-1"))
        headers["X-Lightbox-Role"] = role_of(request.path, self._managing)
        try:
            async with asyncio.timeout(URL_SECONDS), self._turns:
                status, name = await self._ask(headers)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unavailable(f"try again: LIGHTBOX_AUTH_URL does not answer: {type(error).__name__}") from error
        if status == 401:
            raise Unauthenticated("LIGHTBOX_AUTH_URL does not know the caller: it answered 401")
        if status == 403:
            raise PermissionDenied("LIGHTBOX_AUTH_URL does not allow it: it answered 403")
        if not 200 <= status <= 299:
            raise Unavailable(f"try again: LIGHTBOX_AUTH_URL: expected 2xx, 401 or 403, got {status}")
        return Admitted(name if _PLAIN.fullmatch(name) else "")

    async def _ask(self, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return status and X-Auth-Name.

        No library with threads: a thread that waits for a response cannot be ended, and would delay a stop.
        """
        url = urlsplit(self._url)
        target = quote(f"{url.path or '/'}{url.query and '?'}{url.query}", safe=string.punctuation)
        lines = [f"GET {target} HTTP/1.1", f"Host: {url.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        while self.idle:
            reader, writer = self.idle.pop()
            if reader._buffer:  #  type: ignore[attr-defined]  # bytes that belong to no answer
                writer.transport.abort()
                continue
            with suppress(OSError, EOFError):  # the peer may have closed it
                return await self._ask_over(reader, writer, request)
        port = url.port or (443 if self._tls else 80)
        return await self._ask_over(*await asyncio.open_connection(url.hostname, port, ssl=self._tls), request)

    async def _ask_over(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> tuple[int, str]:
        """Send a request over a connection, and keep that unless a body follows, which is not read."""
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
