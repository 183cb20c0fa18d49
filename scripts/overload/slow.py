"""Clients that are slow on purpose, many at once: they send headers or bodies a byte at a time, or hardly read."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from types import TracebackType

DRIP_SECONDS = 0.5
READ_BYTES = 512


class SlowClients:
    """``count`` connections of each kind, dripping until the end of the ``with`` block."""

    def __init__(self, port: int, count: int, large_answer: bytes) -> None:
        self._port = port
        self._stop = threading.Event()
        self._selector = selectors.DefaultSelector()
        head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n"
        for _ in range(count):
            self._connect(head, b"X")
            self._connect(head + b"\r\n", b"X")
            self._connect(large_answer, b"")
        self._thread = threading.Thread(target=self._drip)

    def _connect(self, begin: bytes, drip: bytes) -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", self._port))
        connection.sendall(begin)
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, drip)

    def __enter__(self) -> SlowClients:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _drip(self) -> None:
        while not self._stop.wait(DRIP_SECONDS):
            for key in list(self._selector.get_map().values()):
                try:
                    key.fileobj.send(key.data) if key.data else key.fileobj.recv(READ_BYTES)  # type: ignore[union-attr]
                except BlockingIOError:
                    continue
                except OSError:
                    self._selector.unregister(key.fileobj)  # the server has had enough of it


def settle(seconds: float) -> None:
    """Let slow connections be taken before anything is measured."""
    time.sleep(seconds)
