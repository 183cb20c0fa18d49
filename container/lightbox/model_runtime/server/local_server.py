"""Predict over the local transport: a unix socket with a thread for each connection."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lightbox.model_runtime.wire.local_frames import (
    GREETING,
    MAX_REQUEST_BYTES,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    receive,
    shared,
)
from lightbox.model_runtime.wire.status import Code, StatusError

log = logging.getLogger(__name__)

Predict = Callable[[memoryview, float], bytes]
"""Takes a PredictRequest and its remaining seconds; returns a PredictResponse or raises StatusError."""


class LocalServer:
    """Serves ``predict`` at a socket, to at most ``most`` connections; further ones are closed without a greeting."""

    def __init__(self, path: str, most: int, predict: Predict) -> None:
        """Bind the socket, replacing that of an earlier server; raise OSError on failure."""
        self._predict = predict
        self._most = most
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._stopping = False
        Path(path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(path)
            self._listener.listen(128)
        except OSError:
            self._listener.close()
            raise

    def start(self) -> None:
        """Begin to accept connections."""
        threading.Thread(target=self._accept, name="local-accept", daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Accept no more connections, and let the received calls end within ``seconds``."""
        with self._changed:
            self._stopping = True
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)  # received bytes can still be read
        with suppress(OSError):  # stopped before
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread, which close would not
        self._listener.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._connections, seconds)

    def connections(self) -> int:
        """Return the number of connections."""
        return len(self._connections)

    def _accept(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if not self._stopping:
                    log.error("the local transport cannot accept a connection: %s", error)
                    time.sleep(0.1)
                continue
            if not self._add(connection):
                connection.close()

    def _add(self, connection: socket.socket) -> bool:
        with self._changed:
            if self._stopping or len(self._connections) >= self._most:
                return False
            self._connections.add(connection)
        try:
            threading.Thread(target=self._serve, args=(connection,), name="local", daemon=True).start()
        except RuntimeError:  # no thread is available
            self._remove(connection)
        return True

    def _remove(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.discard(connection)
            connection.close()
            self._changed.notify_all()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.sendall(GREETING)
            memory = shared(connection)
            while True:
                start, size, seconds = REQUEST_HEADER.unpack(receive(connection, REQUEST_HEADER.size))
                if size > MAX_REQUEST_BYTES:
                    log.error("the local transport: expected at most %d bytes, got %d", MAX_REQUEST_BYTES, size)
                    return
                is_shared = start + size <= len(memory)
                request = memory[start : start + size] if is_shared else memoryview(receive(connection, size))
                code, response = self._answer(request, seconds)
                connection.sendall(RESPONSE_HEADER.pack(code, len(response)) + response)
        except (EOFError, OSError):
            pass  # the client has closed the connection
        except MemoryError:
            log.error("the local transport: no memory for a request")
        finally:
            self._remove(connection)

    def _answer(self, request: memoryview, seconds: float) -> tuple[Code, bytes]:
        try:
            return Code.OK, self._predict(request, seconds)
        except StatusError as error:
            return error.code, error.message.encode("utf-8", "replace")
