"""Stands before the gRPC server and counts: connections, calls, and the bytes of messages until they are answered.

gRPC's own limits are those of one call or one connection: many of them take any amount of memory before a handler
hears of a call (ADR 066). All bytes go through as they came. A call that is beyond a bound is ended to both sides:
the server hears that its caller has cancelled it, the caller gets a status.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

from typing_extensions import override

from lightbox.core.edge import choose_request_id
from lightbox.core.errors import DeadlineExceeded, LightboxError, TooLarge, Unavailable
from lightbox.features.open_inference import http2
from lightbox.features.open_inference.http2 import OpenCall
from lightbox.machine.memory import find_trim


class Side(asyncio.Protocol):
    """The caller's or the server's side: frames that come are told, frames to be sent are gathered."""

    def __init__(self, frames: http2.Frames, on_frame: Callable[[http2.Frame], None], relay: _Connection) -> None:
        self.frames = frames
        self.other: Side
        self._on_frame = on_frame
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._relay.opened(self)
        self.flush()

    @override
    def data_received(self, data: bytes) -> None:
        try:
            for frame in self.frames.feed(data):
                self._on_frame(frame)
        except http2.BadFrames:
            self._relay.close()
        self.other.flush()

    @override
    def connection_lost(self, error: Exception | None) -> None:
        """Close the other side too, after the last word of this one is read.

        When the peer closes after its last word, our next write fails before that word is read.
        """
        if error is not None and self._transport is not None:
            with suppress(OSError):
                while data := os.read(self._transport.get_extra_info("socket").fileno(), _PIECE):
                    self.data_received(data)
        self._relay.close()

    def pause_writing(self) -> None:
        """Read nothing from the other side until what was read is written."""
        if self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read from the other side again."""
        if self.other._transport is not None:
            self.other._transport.resume_reading()

    def send(self, data: bytes) -> None:
        """Send whole frames, with the next ``flush``."""
        self._parts.append(data)

    def flush(self) -> None:
        """Send what was gathered."""
        if self._parts and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
            self._parts.clear()

    @property
    def unsent(self) -> bool:
        """Whether bytes still have to go out."""
        return bool(self._transport and self._transport.get_write_buffer_size())

    def close(self) -> None:
        """Close, after what was gathered has gone out."""
        self.flush()
        if self._transport is not None:
            self._transport.close()


MAX_CONNECTIONS = 256
MAX_CALLS = 1024
"""Of all connections together; what one connection may have is told to it by the server."""
RECEIVE_SECONDS = 60.0
"""A message must be there as a whole in that time, and a connection must have said something by then."""
_QUEUE, _PIECE = 4096, 1 << 16
_LOOK_SECONDS, _LAST_SECONDS, _PAUSE_SECONDS = 1.0, 2.0, 0.005
_SERVERS_FRAME = (1 << 24) - 1
"""Each caller sets how large the server's frames may be; this is the most that HTTP/2 has room for."""
_MUCH = 32 << 20
"""So many bytes that messages held and do not any more are given back to the system."""
_STATUS_NUMBERS = {"RESOURCE_EXHAUSTED": 8, "UNAVAILABLE": 14, "DEADLINE_EXCEEDED": 4}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

OnRefused = Callable[[LightboxError, str, int], None]
"""Hears of a call that was ended here: why, its request id, and how many bytes of its message had come."""


@dataclass(frozen=True)
class Bounds:
    """What the gate lets through; ``message`` are the bytes of one, ``together`` those of all that are not answered."""

    message: int
    together: int
    connections: int = MAX_CONNECTIONS
    calls: int = MAX_CALLS
    receive_seconds: float = RECEIVE_SECONDS


class Gate:
    """Listens for callers, and passes on to the gRPC server at a unix socket. Belongs to one event loop."""

    def __init__(self, server: str, bounds: Bounds, on_refused: OnRefused) -> None:
        self.server = server
        self.bounds = bounds
        self.on_refused = on_refused
        self.connections: set[_Connection] = set()
        self.calls: set[OpenCall] = set()
        self.held = 0
        self.passed = 0  # calls that the server is to accept
        self.closed = False
        self._most_held = 0
        self._trim = find_trim()
        self._listener: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def listen(self, listener: socket.socket) -> None:
        """Begin to take connections from a socket that is bound."""
        loop = asyncio.get_running_loop()
        if listener.family == socket.AF_UNIX:
            self._listener = await loop.create_unix_server(lambda: _Connection(self).caller, sock=listener)
        else:
            self._listener = await loop.create_server(lambda: _Connection(self).caller, sock=listener, backlog=_QUEUE)
        self._looking = asyncio.create_task(self._look())

    def close(self) -> None:
        """Take no more connections and no more calls; those that are there go on."""
        self.closed = True
        if self._listener is not None:
            self._listener.close()

    async def end(self) -> None:
        """Close what is left, after the server has ended its side and what it sent has gone out."""
        there, until = list(self.connections), time.monotonic() + _LAST_SECONDS
        while (self.connections or any(one.caller.unsent for one in there)) and time.monotonic() < until:
            await asyncio.sleep(_PAUSE_SECONDS)  # what the server sent last, and its end, are still to be read
        for connection in list(self.connections):
            connection.close()
        if self._looking is not None:
            self._looking.cancel()

    def hold(self, call: OpenCall, size: int) -> None:
        """Count ``size`` as what a call holds now; while all hold too much, end the largest message in its coming."""
        self.held += size - call.held
        self._most_held = max(self._most_held, self.held)
        call.held = size
        while self.held > self.bounds.together and call in self.calls:
            largest = max(self.calls, key=lambda one: one.incoming.partial)
            victim = largest if largest.incoming.partial else call
            most = f"{self.bounds.together >> 20} MiB, twice LIGHTBOX_MAX_BODY_MB"
            victim.end(Unavailable(f"try again: gRPC messages hold as much memory as they may together, {most}"))

    def forget(self, call: OpenCall) -> None:
        """Count a call no more."""
        self.calls.discard(call)
        self.held -= call.held
        call.held = 0

    async def _look(self) -> None:
        """End what has taken too long."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.bounds.receive_seconds / 4))
            before = time.monotonic() - self.bounds.receive_seconds
            late = f"the message was not complete within {self.bounds.receive_seconds:g} s"
            for call in [one for one in self.calls if one.incoming.partial and one.since < before]:
                call.end(DeadlineExceeded(late))
            for connection in [one for one in self.connections if one.caller.frames.unfinished_since < before]:
                connection.close()
            if self._most_held - self.held > _MUCH:
                self._most_held = self.held
                await asyncio.get_running_loop().run_in_executor(None, self._trim)


class _Connection:
    """A caller's connection and the one to the server that goes with it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._streams: dict[int, OpenCall] = {}
        self._newest = 0
        self.caller = Side(http2.Frames(http2.MAX_FRAME, http2.PREFACE), self._from_caller, self)
        self.server = Side(http2.Frames(_SERVERS_FRAME), self._from_server, self)
        self.caller.other, self.server.other = self.server, self.caller
        # Before all that the caller says: asyncio of Debian's Python 3.11.2 reads on where reading is paused at once.
        self.server.send(http2.PREFACE)
        self._connecting: asyncio.Task[None] | None = None

    def opened(self, side: Side) -> None:
        """Hear that one of the sides is connected; the caller's is first."""
        if side is self.server:
            self.server.resume_writing()
            if self not in self._gate.connections:  # the caller has gone meanwhile
                self.close()
            return
        self._gate.connections.add(self)
        if len(self._gate.connections) > self._gate.bounds.connections:
            self.close()
            return
        self.server.pause_writing()  # nothing is read before there is somebody to pass it on to
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self.server, self._gate.server)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close both sides, after what is on its way has gone out."""
        for call in self._streams.values():
            self._gate.forget(call)
        self._streams.clear()
        self._gate.connections.discard(self)
        self.caller.close()
        self.server.close()

    def _end_call(self, call: OpenCall, error: LightboxError) -> None:
        """End a call: its caller gets a status, the server hears that the caller has cancelled it."""
        self._forget(call.number)
        request_id = choose_request_id(lambda name: None)  # the caller's is in headers that are not read here
        fields = {
            "grpc-status": str(_STATUS_NUMBERS[error.grpc_status]),
            "grpc-message": quote(error.message, safe=_PRINTABLE),
            "lightbox-code": error.code,
            "x-amzn-requestid": request_id,
        }
        self.server.send(http2.reset(call.number, http2.CANCEL))
        self.server.flush()
        self.caller.send(http2.trailers(call.number, fields, alone=not call.has_headers))
        self.caller.send(http2.reset(call.number, http2.NO_ERROR))
        self.caller.flush()
        self._gate.on_refused(error, request_id, call.incoming.partial)

    def _forget(self, number: int) -> None:
        if (call := self._streams.pop(number, None)) is not None:
            self._gate.forget(call)

    def _from_caller(self, frame: http2.Frame) -> None:
        """Pass a frame on. One of a call that was ended goes too: the server counts what a connection may send."""
        call = self._streams.get(frame.stream)
        if frame.kind == http2.DATA and call is not None:
            self._count(call, frame)
        self.server.send(frame.data)
        if frame.kind == http2.HEADERS and frame.stream > self._newest:
            self._newest = frame.stream
            self._open(frame.stream)
        elif frame.kind == http2.RESET:
            self._forget(frame.stream)

    def _open(self, number: int) -> None:
        call = self._streams[number] = OpenCall(number, self._end_call)
        self._gate.calls.add(call)
        self._gate.passed += 1
        if self._gate.closed:  # what the server gets now it would answer with CANCELLED, which nobody sends again
            call.end(Unavailable("try again: the server is stopping"))
        elif len(self._gate.calls) > self._gate.bounds.calls:
            call.end(Unavailable(f"try again: {self._gate.bounds.calls} gRPC calls are open already"))

    def _count(self, call: OpenCall, frame: http2.Frame) -> None:
        most = self._gate.bounds.message
        held = call.take(frame.content(), most)
        if call.incoming.partial and call.incoming.declared > most:
            size = call.incoming.declared
            call.end(TooLarge(f"the message of {size:,} bytes is larger than LIGHTBOX_MAX_BODY_MB allows"))
        else:
            self._gate.hold(call, held)

    def _from_server(self, frame: http2.Frame) -> None:
        self.caller.send(frame.data)
        if frame.refuses_stream:
            self._gate.passed -= 1
        if (call := self._streams.get(frame.stream)) is None:
            return
        if frame.kind == http2.HEADERS:
            call.has_headers = True
        elif frame.kind == http2.DATA:
            self._gate.hold(call, call.answer(frame.content()))
        if frame.ends_stream:
            self._forget(frame.stream)
