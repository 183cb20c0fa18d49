"""HTTP for the REST API: an event loop reads all connections, a pool of threads answers.

A slow client takes a buffer, but no thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import resource
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httptools
from typing_extensions import override

from lightbox.model_runtime.server.rest.http_messages import (
    MAX_BODY_BYTES,
    HttpError,
    Request,
    Response,
    html_error,
    parse_head,
    serialize,
)

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
MAX_HEAD_BYTES = 1 << 16
"""The longest head, and the most bytes in a row that add nothing to the body."""
MAX_CONNECTIONS = 1024
STALL_SECONDS = 60.0
"""Seconds after which a connection is closed whose request or response makes no progress. Between requests it may
stay idle as long as there is room for others."""

_READ_BYTES = 1 << 20
_QUEUE = 128
_STOP_SECONDS = 2.0
_LOOK_SECONDS = 0.2
_EMPTY_LINES = re.compile(rb"(?:\r\n)*")
_NO_LINE = re.compile(rb"(?<!\r)\n")


class Connection(asyncio.BufferedProtocol):
    """One client. Belongs to the server's event loop."""

    def __init__(self, server: RestServer) -> None:
        self.moved = time.monotonic()
        """When the client sent or received something; infinite while its request is being answered."""
        self.transport: asyncio.Transport
        self._server = server
        self._head = bytearray()
        self._request: Request | None = None
        self._parser: httptools.HttpRequestParser
        self._added = 0
        """Bytes since the body has grown."""
        self._unsent = 0

    @property
    def idle(self) -> bool:
        """Whether no byte of a request has arrived, and no response is left to send."""
        return not (self._head or self._request or self.transport.get_write_buffer_size())

    def is_stalled(self, seconds: float) -> bool:
        """Return whether a request or a response makes no progress for so long. To be asked now and then."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self.moved = unsent, time.monotonic()
        return not self.idle and time.monotonic() - self.moved > seconds

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.add(self)

    @override
    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.received

    @override
    def buffer_updated(self, nbytes: int) -> None:
        if self._request is not None and self._request.is_complete:
            self._request.keep_alive = False  # what a client sends before its response is not read
        elif self.transport.get_write_buffer_size():
            self.transport.close()
        else:
            self.moved = time.monotonic()
            self._receive(self._server.received[:nbytes])

    @override
    def eof_received(self) -> bool:
        """Return whether the connection stays open: until the response is sent, if there is one."""
        if self._request is None or not self._request.is_complete:
            return False
        self._request.keep_alive = False
        return True

    def _receive(self, data: memoryview) -> None:
        try:
            if self._request is None:
                data = self._begin(data)
            if self._request is not None:
                self._read(self._request, data)
        except HttpError as error:
            self.send(None, html_error(error.status))
        except httptools.HttpParserError:
            self.send(None, html_error(400))

    def _begin(self, data: memoryview) -> memoryview:
        """Add to the head; if it is complete, begin the request, and return what follows."""
        start = max(0, len(self._head) - 3)
        self._head += data
        del self._head[: _EMPTY_LINES.match(self._head).end()]  # type: ignore[union-attr]
        end = self._head.find(b"\r\n\r\n", start)
        size = end if end >= 0 else len(self._head)
        if _NO_LINE.search(self._head, start, size):
            raise HttpError(400)
        if size > MAX_HEAD_BYTES:
            raise HttpError(413)
        if end < 0:
            return data[:0]
        received, self._head, self._added = memoryview(self._head), bytearray(), 0
        self._request, self._parser = parse_head(bytes(received[: end + 4]))
        rest, expected = received[end + 4 :], self._request.headers.get("expect", "").lower()
        if "100-continue" in expected and not (rest or self._request.is_complete):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return rest

    def _read(self, request: Request, data: memoryview) -> None:
        """Add to the body; if it is complete, answer the request."""
        size = len(request.body)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not request.is_complete:
                raise
            request.keep_alive = False
        self._added = self._added + len(data) if len(request.body) == size else 0
        if len(request.body) > MAX_BODY_BYTES or self._added > MAX_HEAD_BYTES:
            raise HttpError(413)
        if request.is_complete:
            del self._parser  # it refers to the request, which would stay until the next one
            self.moved = math.inf
            self._server.workers.submit(self._server.answer, self, request)

    def send(self, request: Request | None, response: Response) -> None:
        """Send the response to a request, to None if it is no HTTP."""
        if self.transport.is_closing():
            return
        data, keep = serialize(request, response)
        self._request, self.moved = None, time.monotonic()
        self.transport.write(data)
        if not keep or self._server.stopping.is_set():
            self.transport.close()


class RestServer:
    """Serves ``handle`` on the loopback interface, and at a unix socket."""

    def __init__(
        self,
        port: int | None,
        threads: int,
        handle: Callable[[Request], Response],
        host: str = LOOPBACK,
        path: str = "",
    ) -> None:
        """Bind the port (0 for any, None for none) of ``host``, and the socket ``path``; raise OSError on failure."""
        self._handle = handle
        self._listeners = [] if port is None else _listen(host, port)
        self.port = int(self._listeners[0].getsockname()[1]) if self._listeners else None
        if path:
            Path(path).unlink(missing_ok=True)  # of an earlier server
            self._listeners.append(socket.create_server(path, family=socket.AF_UNIX, backlog=_QUEUE))
        # Others need descriptors too: the gRPC server, and TensorFlow for models' files.
        self._most = min(MAX_CONNECTIONS, max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self.workers = ThreadPoolExecutor(max(1, threads), "rest")
        self.connections: set[Connection] = set()
        self.received = memoryview(bytearray(_READ_BYTES))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rest-io", daemon=True)
        self.stopping = asyncio.Event()

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Accept no more connections, let calls in progress end within ``seconds``, close all connections."""
        self._loop.call_soon_threadsafe(self.stopping.set)
        self._thread.join(seconds)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        servers = [
            await self._loop.create_server(lambda: Connection(self), sock=listener, backlog=_QUEUE)
            for listener in self._listeners
        ]
        while not self.stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), 1.0)
            self._drop(lambda connection: connection.is_stalled(STALL_SECONDS))
        await asyncio.sleep(_LOOK_SECONDS)  # connections that wait to be accepted are served
        for server in servers:
            server.close()
        while self.connections:
            self._drop(lambda connection: connection.idle or connection.is_stalled(_STOP_SECONDS))
            await asyncio.sleep(_LOOK_SECONDS)
        self.workers.shutdown()

    def _drop(self, which: Callable[[Connection], bool]) -> None:
        for connection in filter(which, list(self.connections)):
            connection.transport.abort()

    def add(self, connection: Connection) -> None:
        """Add a connection; in place of the one that has been idle the longest if there are too many."""
        if len(self.connections) >= self._most:
            resting = [other for other in self.connections if other.idle]
            dropped = min(resting, key=lambda other: other.moved, default=connection)
            self.connections.discard(dropped)
            dropped.transport.abort()
        self.connections.add(connection)

    def answer(self, connection: Connection, request: Request) -> None:
        """Answer a request; for one of the ``workers``."""
        try:
            response = self._handle(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.target)
            response = html_error(500)
        with suppress(RuntimeError):  # the server has stopped without this call
            self._loop.call_soon_threadsafe(connection.send, request, response)


def _listen(host: str, port: int) -> list[socket.socket]:
    """Listen on ``host``; with 127.0.0.1 on ::1 too, where there is IPv6."""
    if ":" in host:
        both = socket.has_dualstack_ipv6()
        return [socket.create_server((host, port), family=socket.AF_INET6, backlog=_QUEUE, dualstack_ipv6=both)]
    listeners = [socket.create_server((host, port), backlog=_QUEUE)]
    if host == LOOPBACK:
        with suppress(OSError):
            listeners += _listen("::1", listeners[0].getsockname()[1])
    return listeners
