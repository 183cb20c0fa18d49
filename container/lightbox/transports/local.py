"""The wire ``local``: Predict over a unix socket of the embedded model server, the rest over gRPC.

It carries the same messages, deadlines and errors as gRPC, for less processor time: docs/adr/081-local-wire.md. A
connection carries one call at a time and is kept for the next one. Where a request cannot have arrived whole, it goes
over gRPC instead, and is told of as a gRPC call.
"""

from __future__ import annotations

import select
import socket
from pathlib import Path

from typing_extensions import override

from lightbox.core.errors import LightboxError
from lightbox.core.request_context import RequestContext
from lightbox.model.spec import SignatureSpec
from lightbox.tfs_wire.local import ASK, GREETING, MAX_REQUEST_BYTES, TOLD, receive
from lightbox.tfs_wire.status import Code
from lightbox.transports.base import RECONNECT_SECONDS, from_server
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.predict_messages import Pieces, time_left

_LARGE = 1 << 16
"""Bytes of a piece that is sent by itself: a call costs less than a copy."""
_LEAST_SECONDS = 0.001
"""A socket's timeout of 0 would mean that it never waits."""


class LocalTransport(GrpcTransport):
    """Speaks to one embedded model server at a unix socket, and to the same one over gRPC at ``target``."""

    name = "local"

    def __init__(self, path: Path, target: str, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        super().__init__(target, reconnect_seconds)
        self._path = str(path)
        self._idle: list[socket.socket] = []

    @override
    def packed(self, pieces: Pieces) -> Pieces:
        """Return the pieces: each tensor is sent from its own memory."""
        return pieces

    @override
    def send(self, request: Pieces, spec: SignatureSpec, context: RequestContext) -> bytes | memoryview:
        seconds = time_left(context)
        try:
            connection = self._connection(seconds) if sum(map(len, request)) <= MAX_REQUEST_BYTES else None
        except TimeoutError as error:
            raise _failed(Code.DEADLINE_EXCEEDED, spec) from error
        if connection is None or not _sent(connection, request, spec, context):
            return super().send(request, spec, context)
        context.transport = self.name
        reply = _receive(connection, spec, context)
        self._idle.append(connection)
        code, message = reply
        if code != Code.OK:
            raise _failed(code, spec, bytes(message).decode("utf-8", "replace"))
        return memoryview(message).toreadonly()

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
        super().close()

    def _connection(self, seconds: float) -> socket.socket | None:
        """Return a connection that is ready for a call, None where there can be none; raise TimeoutError."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not _has_ended(connection):
                return connection
            connection.close()
        return self._connect(seconds)

    def _connect(self, seconds: float) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(self._path)
            if receive(connection, len(GREETING)) == GREETING:
                return connection
        except TimeoutError:
            connection.close()
            raise
        except (OSError, EOFError):
            pass
        connection.close()
        return None


def _has_ended(connection: socket.socket) -> bool:
    """Tell whether the server has closed a connection on which nothing is under way."""
    poller = select.poll()
    poller.register(connection, select.POLLIN | select.POLLRDHUP)
    return bool(poller.poll(0))


def _sent(connection: socket.socket, request: Pieces, spec: SignatureSpec, context: RequestContext) -> bool:
    """Tell whether the server has got the whole request: where not, the model has not seen it."""
    try:
        seconds = time_left(context)
        connection.settimeout(seconds)
        first: list[bytes | memoryview] = [ASK.pack(sum(map(len, request)), seconds)]
        for piece in request:
            if len(piece) < _LARGE:
                first.append(piece)
                continue
            connection.sendall(b"".join(first))
            connection.sendall(piece)
            first = []
        if first:
            connection.sendall(b"".join(first))
    except TimeoutError as error:
        connection.close()
        raise _failed(Code.DEADLINE_EXCEEDED, spec) from error
    except OSError:
        connection.close()
        return False
    except BaseException:
        connection.close()
        raise
    return True


def _receive(connection: socket.socket, spec: SignatureSpec, context: RequestContext) -> tuple[int, bytearray]:
    """Return the status code and the message of an answer; the connection is closed where there is none."""
    try:
        connection.settimeout(max(context.remaining(), _LEAST_SECONDS))
        code, size = TOLD.unpack(receive(connection, TOLD.size))
        return code, receive(connection, size)
    except TimeoutError as error:
        connection.close()
        raise _failed(Code.DEADLINE_EXCEEDED, spec) from error
    except (OSError, EOFError) as error:
        connection.close()
        raise _failed(Code.UNAVAILABLE, spec) from error
    except BaseException:
        connection.close()
        raise


def _failed(code: int, spec: SignatureSpec, message: str = "") -> LightboxError:
    return from_server(Code(code).name, message, spec.model, spec.version)
