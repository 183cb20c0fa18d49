"""HTTP with an endpoint that may be hostile: a response has limits of time and size, and leads to no other address."""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from typing_extensions import Buffer, override
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ReadTimeoutError

MOST_RESPONSE = 25 << 20
"""Bytes of a response, also of a compressed one: as many as SageMaker allows."""
_PIECE = 1 << 16


class NoResponse(Exception):
    """The endpoint was unreachable, or closed the connection before its response: the image may be sent again."""


class ResponseTimeout(Exception):
    """No response came in time. The image is not sent again: it would take as long, and the first may still run."""


class BadResponse(Exception):
    """The response cannot be used; the message says why."""


@dataclass(frozen=True)
class Came:
    """A whole response; ``headers`` are looked up whatever their case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Http:
    """A client for any number of threads. ``timeout`` is the seconds that a response may take, to its last byte."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._local = threading.local()

    def request(self, method: str, url: str, body: Any = None, headers: Mapping[str, Any] | None = None) -> Came:
        """Send a request and return its response. Raises NoResponse, ResponseTimeout and BadResponse."""
        send = partial(self._session().request, allow_redirects=False, stream=True, proxies=_proxies(url))
        try:
            with send(method, url, data=body, headers=headers, timeout=self._timeout) as came:
                if came.is_redirect:
                    to = came.headers["Location"]
                    raise BadResponse(f"status {came.status_code}: the endpoint leads to another address, {to[:200]!r}")
                return Came(came.status_code, came.headers, _body(came))
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            cause = error.args[0] if error.args else None
            if isinstance(error, requests.ReadTimeout) or isinstance(cause, ReadTimeoutError):
                raise ResponseTimeout(f"no answer came within {self._timeout:g} s (--timeout)") from None
            raise NoResponse(_reason(error)) from error
        except requests.RequestException as error:
            raise BadResponse(str(error)) from error

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            for scheme in ("http://", "https://"):
                self._local.session.mount(scheme, _Adapter())
        session: requests.Session = self._local.session
        return session


def is_loopback(url: str) -> bool:
    """Return whether an address is this machine's own, which no proxy reaches."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _proxies(url: str) -> dict[str, str] | None:
    """Return no proxy for this machine's own addresses, and for others None: those of the environment."""
    return dict.fromkeys(("http", "https", "all"), "") if is_loopback(url) else None


def _body(came: requests.Response) -> bytes:
    pieces, size = list[bytes](), 0
    for piece in came.iter_content(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_RESPONSE:
            raise BadResponse(f"the answer is larger than {MOST_RESPONSE >> 20} MiB")
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    """Return the innermost cause of an exception of requests, as the outer ones name objects."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return f"{type(error).__name__}: {error}"


class _Until(io.RawIOBase):
    """A socket's stream with one timeout for all of it: a socket's own timeout is for each piece."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._each = sock, sock.gettimeout()
        self._file = sock.makefile("rb", buffering=0)
        self._deadline = time.monotonic() + (self._each or 0)

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, into: Buffer, /) -> int | None:
        if self._each is None:
            return self._file.readinto(into)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the read operation timed out")
        self._socket.settimeout(left)
        try:
            return self._file.readinto(into)
        finally:
            self._socket.settimeout(self._each)

    @override
    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *more: Any, **and_more: Any) -> None:
        super().__init__(sock, *more, **and_more)
        self.fp.close()
        self.fp = io.BufferedReader(_Until(sock))


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS = {"http": _Pool, "https": _SecurePool}


class _Adapter(HTTPAdapter):
    @override
    def init_poolmanager(self, *given: Any, **more: Any) -> None:
        super().init_poolmanager(*given, **more)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    @override
    def proxy_manager_for(self, *given: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*given, **more)
        manager.pool_classes_by_scheme = _POOLS
        return manager
