"""HTTP connections to a model server's REST API: to its unix socket if it has one, else to its TCP port."""

from __future__ import annotations

import socket
from typing import Any

from typing_extensions import override
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Timeout
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from lightbox.base.request_context import RequestContext
from lightbox.model.plan import ModelServerAddress

LOOPBACK = "127.0.0.1"


class _SocketConnection(HTTPConnection):
    def __init__(self, *arguments: Any, path: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._path = path

    @override
    def _new_conn(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self.timeout)
            connection.connect(self._path)
        except TimeoutError as error:
            connection.close()
            raise ConnectTimeoutError(self, f"{self._path}: no connection in {self.timeout} s") from error
        except OSError as error:
            connection.close()
            raise NewConnectionError(self, f"{self._path}: {error}") from error
        return connection


class _SocketPool(HTTPConnectionPool):
    ConnectionCls = _SocketConnection


def rest_connections(server: ModelServerAddress, most: int) -> HTTPConnectionPool:
    """Return a pool that keeps at most ``most`` idle connections to a server."""
    if server.rest_socket is None:
        return HTTPConnectionPool(LOOPBACK, server.rest_port, maxsize=most)
    return _SocketPool("localhost", maxsize=most, path=str(server.rest_socket))


def exchange(
    connections: HTTPConnectionPool, method: str, target: str, body: bytes | None, context: RequestContext
) -> BaseHTTPResponse | None:
    """Send a request once. Return the response, None if no server listens.

    Raises urllib3's TimeoutError if the deadline passes, and another HTTPError if the connection ends before the
    response does.
    """
    headers, timeout = dict(context.outgoing), Timeout(context.time_left())
    try:
        return connections.urlopen(
            method, target, body=body, headers=headers, timeout=timeout, retries=False, redirect=False
        )
    except NewConnectionError:
        return None
