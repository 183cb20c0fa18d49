"""HTTP for the REST API: one thread reads all connections, a pool of threads answers.

A slow client takes a buffer, but no thread.
"""

from __future__ import annotations

import errno
import logging
import resource
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lightbox.model_runtime.server.rest.http_parser import HttpError, Request, RequestParser
from lightbox.model_runtime.server.rest.http_response import Response, html_error, serialize

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 1024
MAX_UNSENT_BYTES = 1 << 29
"""Limit of all responses that wait for slow readers; beyond it the oldest ones are dropped."""
IDLE_SECONDS = 60.0
"""Seconds after which a connection is closed whose request or response makes no progress. Between requests it may
stay idle as long as there is room for others."""

_READ_BYTES = 1 << 20
_STOP_SECONDS = 2.0
_PAUSE_SECONDS = 0.05


class Connection:
    """One client: its request, and the unsent rest of its response."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.parser = RequestParser()
        self.unsent: list[memoryview] = []
        self.keep = True
        self.answering = False
        self.moved = time.monotonic()
        self.answered = self.moved
        """When the current response was ready."""

    @property
    def held(self) -> int:
        """Unsent bytes of the response."""
        return sum(map(len, self.unsent))

    def send(self) -> None:
        """Send as much as the socket takes now; raises its OSError, including BlockingIOError."""
        sent, remaining = self.sock.sendmsg(self.unsent), list[memoryview]()
        for part in self.unsent:
            if sent < len(part):
                remaining.append(part[sent:])
            sent = max(0, sent - len(part))
        self.unsent = remaining


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
            self._listeners.append(_listener(socket.AF_UNIX, path))
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._received = memoryview(bytearray(_READ_BYTES))  # the I/O thread's
        # Others need descriptors too: the gRPC server, and TensorFlow for models' files.
        self._most = min(MAX_CONNECTIONS, max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self._workers = ThreadPoolExecutor(max(1, threads), "rest")
        self._wake, self._woken = socket.socketpair()
        self._stopping = False
        self._drained = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rest-io", daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        for sock in [*self._listeners, self._woken]:
            sock.setblocking(False)
            self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Accept no more connections, let calls in progress end within ``seconds``, close all connections."""
        self._stopping = True
        self._wake.close()
        self._drained.wait(seconds)

    # ------------------------------------------------------------ the I/O thread

    def _loop(self) -> None:
        listening = {sock.fileno(): sock for sock in self._listeners}
        swept = time.monotonic()
        while True:
            ready = self._epoll.poll(_STOP_SECONDS / 10 if self._stopping else 1.0)
            for descriptor, events in ready:
                if descriptor == self._woken.fileno():
                    self._epoll.unregister(descriptor)
                elif descriptor in listening:
                    self._accept(listening[descriptor])
                elif descriptor in self._connections:
                    self._advance(self._connections[descriptor], events)
            if self._stopping and not ready:
                # Existing connections are served; new ones are refused from now on.
                self._close_listeners(listening)
                if not any(map(self._is_busy, list(self._connections.values()))):
                    break
            if time.monotonic() - swept > 1.0:
                swept = time.monotonic()
                self._sweep(swept)
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._woken.close()
        self._workers.shutdown(wait=False)
        self._drained.set()

    def _is_busy(self, connection: Connection) -> bool:
        """Return whether a response is being sent, or a request with a time limit is incomplete."""
        if connection.answering or connection.unsent:
            return True
        return not connection.parser.idle and time.monotonic() - connection.moved < _STOP_SECONDS

    def _close_listeners(self, listening: dict[int, socket.socket]) -> None:
        if listening:
            for sock in listening.values():
                self._epoll.unregister(sock.fileno())
                sock.close()
            listening.clear()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            # Without a free descriptor the listener stays ready: wait instead of spinning.
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self._make_room():
                time.sleep(_PAUSE_SECONDS)
            return
        if len(self._connections) >= self._most and not self._make_room():
            sock.close()
            return
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = Connection(sock)
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLONESHOT)

    def _make_room(self) -> bool:
        """Close the connection that has been idle the longest."""
        resting = [item for item in self._connections.values() if item.parser.idle and not item.answering]
        if not resting:
            return False
        self._drop(min(resting, key=lambda item: item.moved))
        return True

    def _sweep(self, now: float) -> None:
        for connection in list(self._connections.values()):
            busy = connection.unsent or not connection.parser.idle
            if busy and not connection.answering and now - connection.moved > IDLE_SECONDS:
                self._drop(connection)
        self._give_up_slow_readers()

    def _give_up_slow_readers(self) -> None:
        waiting = [item for item in list(self._connections.values()) if item.unsent and not item.answering]
        held = sum(item.held for item in waiting)
        for connection in sorted(waiting, key=lambda item: item.answered):
            if held <= MAX_UNSENT_BYTES:
                return
            held -= connection.held
            self._drop(connection)

    def _advance(self, connection: Connection, events: int) -> None:
        connection.moved = time.monotonic()
        try:
            if connection.unsent:
                self._send(connection)
            elif events & ~select.EPOLLOUT:
                self._receive(connection)
        except OSError:
            self._drop(connection)
        except Exception:  # one client's failure does not affect the others
            log.exception("a connection failed")
            self._drop(connection)

    def _receive(self, connection: Connection) -> None:
        while True:
            try:
                size = connection.sock.recv_into(self._received)
            except BlockingIOError:
                self._arm(connection, select.EPOLLIN)
                return
            if not size:
                self._drop(connection)
                return
            if self._feed(connection, self._received[:size]):
                return

    def _feed(self, connection: Connection, data: bytes | memoryview) -> bool:
        """Return whether the connection waits for a response now."""
        try:
            request = connection.parser.feed(data)
        except HttpError as error:
            self._answer(connection, None, html_error(error.status))
            return True
        if request is not None:
            connection.answering = True
            self._workers.submit(self._work, connection, request)
            return True
        if connection.parser.expects_continue:
            connection.parser.expects_continue = False
            connection.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return False

    def _arm(self, connection: Connection, events: int) -> None:
        self._epoll.modify(connection.sock.fileno(), events | select.EPOLLONESHOT)

    def _drop(self, connection: Connection) -> None:
        self._connections.pop(connection.sock.fileno(), None)
        connection.sock.close()

    # ---------------------------------------------------------------- any thread

    def _work(self, connection: Connection, request: Request) -> None:
        try:
            response = self._handle(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.target)
            response = html_error(500)
        self._answer(connection, request, response)

    def _answer(self, connection: Connection, request: Request | None, response: Response) -> None:
        parts, connection.keep = serialize(request, response)
        connection.keep = connection.keep and not self._stopping
        connection.unsent = [memoryview(part) for part in parts if part]
        connection.moved = connection.answered = time.monotonic()
        connection.answering = False
        try:
            self._send(connection)
        except OSError:
            self._drop(connection)

    def _send(self, connection: Connection) -> None:
        """Send as much as the socket takes; the rest follows when it is ready for more."""
        while connection.unsent:
            try:
                connection.send()
            except BlockingIOError:
                self._arm(connection, select.EPOLLOUT)
                return
        if not connection.keep:
            self._drop(connection)
        elif not self._feed(connection, b""):
            self._arm(connection, select.EPOLLIN)


def _listen(host: str, port: int) -> list[socket.socket]:
    """Listen on ``host``; with 127.0.0.1 on ::1 too, where there is IPv6."""
    listeners = [_listener(socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port))]
    if host != LOOPBACK:
        return listeners
    try:
        listeners.append(_listener(socket.AF_INET6, ("::1", listeners[0].getsockname()[1])))
    except OSError:
        log.debug("no IPv6 loopback")
    return listeners


def _listener(family: int, address: tuple[str, int] | str) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock
