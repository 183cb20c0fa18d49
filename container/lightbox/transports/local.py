"""The transport ``local``: Predict over a unix socket of the embedded model server, other calls over gRPC.

It has the messages, deadlines and errors of gRPC for less CPU time: docs/adr/081-local-transport.md. A connection
carries one call at a time and is kept for the next one, with shared memory from which the server reads the message. A
request that could not be sent in full goes over gRPC instead, and is reported as a gRPC call.
"""

from __future__ import annotations

import mmap
import select
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import SignatureSpec
from lightbox.model_runtime.wire.local_frames import (
    GREETING,
    MAX_REQUEST_BYTES,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    receive,
    share,
)
from lightbox.model_runtime.wire.predict_messages import Pieces
from lightbox.model_runtime.wire.status import Code
from lightbox.transports.base import RECONNECT_SECONDS, from_server
from lightbox.transports.grpc import GrpcTransport

_LEAST_SHARED, MOST_SHARED = 1 << 16, 1 << 21
"""Bytes of a connection's shared memory, which it keeps. Larger messages are sent over the socket."""
_ALIGNED = 64
"""Alignment of tensors in the memory: numpy copies numbers that are not aligned."""
_LEAST_SECONDS = 0.001
"""A timeout of 0 would make a socket non-blocking."""


class _Connection(NamedTuple):
    socket: socket.socket
    memory: mmap.mmap
    poller: select.poll
    """Tells whether the server has closed the connection while it is idle."""

    def close(self) -> None:
        self.socket.close()
        self.memory.close()


class LocalTransport(GrpcTransport):
    """Calls one embedded model server at a unix socket, and the same one over gRPC at ``target``."""

    name = "local"

    def __init__(self, path: Path, target: str, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        super().__init__(target, reconnect_seconds)
        self._path = str(path)
        self._idle: list[_Connection] = []

    @override
    def packed(self, pieces: Pieces) -> Pieces:
        """Return the pieces; each tensor is copied once, to the memory that the server reads."""
        return pieces

    @override
    def send(self, request: Pieces, spec: SignatureSpec, context: RequestContext) -> bytes | memoryview:
        seconds, size = context.time_left(), sum(map(len, request))
        try:
            room = size + _ALIGNED if size <= MOST_SHARED - _ALIGNED else 0
            connection = self._connection(seconds, room) if size <= MAX_REQUEST_BYTES else None
        except TimeoutError as error:
            raise _failed(Code.DEADLINE_EXCEEDED, spec) from error
        if connection is None or not _sent(connection, request, size, spec, context):
            return super().send(request, spec, context)
        context.transport = self.name
        response = _receive(connection, spec, context)
        self._idle.append(connection)
        code, message = response
        if code != Code.OK:
            raise _failed(code, spec, bytes(message).decode("utf-8", "replace"))
        return memoryview(message).toreadonly()

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
        super().close()

    def _connection(self, seconds: float, room: int) -> _Connection | None:
        """Return an idle connection with ``room`` bytes of memory, None if none can be made.

        Raises TimeoutError.
        """
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if len(connection.memory) >= room and not connection.poller.poll(0):
                return connection
            connection.close()
        return self._connect(seconds, max(_LEAST_SHARED, 1 << (room - 1).bit_length()))

    def _connect(self, seconds: float, room: int) -> _Connection | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(self._path)
            if receive(connection, len(GREETING)) == GREETING:
                poller = select.poll()
                poller.register(connection, select.POLLIN | select.POLLRDHUP)
                return _Connection(connection, share(connection, room), poller)
        except TimeoutError:
            connection.close()
            raise
        except (OSError, EOFError):
            pass
        connection.close()
        return None


def _sent(connection: _Connection, request: Pieces, size: int, spec: SignatureSpec, context: RequestContext) -> bool:
    """Send the request; return False if the server has not received all of it, and so has not run the model."""
    try:
        seconds = context.time_left()
        connection.socket.settimeout(seconds)
        start = -sum(map(len, request[:-1])) % _ALIGNED  # the last piece of an image's request is the tensor
        is_shared = start + size <= len(connection.memory)
        if is_shared:
            _write(connection.memory, start, request)
        connection.socket.sendall(REQUEST_HEADER.pack(start, size, seconds))
        for piece in () if is_shared else request:
            connection.socket.sendall(piece)
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


def _write(memory: mmap.mmap, position: int, pieces: Sequence[bytes | memoryview]) -> None:
    for piece in pieces:
        end = position + len(piece)
        memory[position:end] = piece
        position = end


def _receive(connection: _Connection, spec: SignatureSpec, context: RequestContext) -> tuple[int, bytearray]:
    """Return status code and message of a response; close the connection if there is none."""
    try:
        connection.socket.settimeout(max(context.remaining(), _LEAST_SECONDS))
        code, size = RESPONSE_HEADER.unpack(receive(connection.socket, RESPONSE_HEADER.size))
        return code, receive(connection.socket, size)
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
