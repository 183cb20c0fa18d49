"""One stream: frames come in, a text frame goes out for each, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from typing_extensions import override
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Opcode
from websockets.frames import Frame as ProtocolFrame
from websockets.server import ServerProtocol

from lightbox.base.errors import BadRequest, Unavailable
from lightbox.features.streams.forwarding import FrameResponse, Relay, failed
from lightbox.features.streams.frame_options import Choice, from_text

log = logging.getLogger("lightbox")

OPEN, DROPPED = range(2)
"""Places of the counts of open streams and dropped frames."""
Counts: TypeAlias = "memoryview[Any] | list[int]"
SEND_SECONDS = 30.0
"""Seconds that a caller has to read a response, as with nginx's send_timeout."""
STOP_SECONDS = 1.0
"""Seconds to wait for the stop signal after nginx did not accept a frame: both get theirs at the same moment."""
ENDING = "stopping or restarting: open another stream for the frames that have no answer"


@dataclass(frozen=True)
class Frame:
    """A frame with its number, from 1, and the options at its arrival."""

    number: int
    data: bytes
    choice: Choice


class Held:
    """Counts the bytes of all streams that arrive, wait or are in progress; ``most`` limits them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


class FrameProtocol(ServerProtocol):
    """The WebSocket protocol, with a close between the fragments of a message as in RFC 6455, 5.4."""

    @override
    def recv_frame(self, frame: ProtocolFrame) -> None:
        """Drop the message that a close frame interrupts; websockets would treat the close as an error, 1002."""
        if frame.opcode is Opcode.CLOSE:
            self.current_size = None
        super().recv_frame(frame)


class FrameConnection(ServerConnection):
    """A WebSocket that counts its bytes and the silence of its peer.

    After ``ending`` is set, it closes when the accepted frames are answered.
    """

    held: Held
    ending: asyncio.Event
    bytes_held = 0
    silent = 0.0
    """Seconds, added by ``StreamServer.watch``. They do not pass while this process is suspended."""
    choice = Choice()
    credentials: Mapping[str, str] = {}
    """The caller's headers with its identity, and its Host; each frame's request has them."""
    request_id = ""

    @override
    def data_received(self, data: bytes) -> None:
        """Receive bytes; close the stream with 1013 when all streams hold too many."""
        self.silent = 0.0
        self._hold(self.bytes_held + len(data))
        if self.held.bytes > self.held.most:
            self.protocol.fail(CloseCode.TRY_AGAIN_LATER, f"all streams may hold {self.held.most >> 20} MiB together")
            self.send_data()
            self.transport.close()
            return
        super().data_received(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(0)
        super().connection_lost(exc)

    def release(self, size: int) -> None:
        """Stop counting a frame of this size."""
        self.silent = 0.0
        # The sizes do not include frame headers: when nothing waits, only bytes of the next frame count.
        arrived = len(self.protocol.reader.buffer)
        self._hold(max(self.bytes_held - size, 0) if len(self.recv_messages.frames) else arrived)

    def _hold(self, size: int) -> None:
        self.held.bytes += size - self.bytes_held
        self.bytes_held = size


class Stream:
    """Answers the frames of one connection.

    The next frame is read when the previous one is answered, so that the socket slows a faster sender. With ``latest``
    reading goes on, and only the newest waiting frame is answered.
    """

    def __init__(self, connection: FrameConnection, relay: Relay, counts: Counts) -> None:
        self._connection = connection
        self._counts = counts
        self._relay = relay
        self._choice = connection.choice
        self._waiting: Frame | None = None
        self._dropped = 0
        self._answering: asyncio.Task[None] | None = None
        self.is_busy = False
        """Whether a frame is accepted and not yet answered."""
        self.received = self.errors = self.dropped = 0

    async def run(self) -> None:
        """Answer frames until either side closes the connection."""
        with suppress(ConnectionClosed):
            while True:
                message = await self._connection.recv()
                if self._connection.ending.is_set():
                    self._connection.release(len(message))  # not accepted: the close code says so
                    continue
                if isinstance(message, str):
                    await self._choose(message)
                    continue
                self._take(message)
                if self._answering is None or self._answering.done():
                    self._answering = asyncio.create_task(self._answer_all())
                if not self._choice.latest:
                    await self._answering

    async def _choose(self, text: str) -> None:
        try:
            self._choice = from_text(text, self._choice)
        except BadRequest as error:
            await self._send(failed(error, self._connection.request_id), None)
        self._connection.release(len(text))

    def _take(self, data: bytes) -> None:
        if self._waiting is not None:
            self._dropped += 1
            self._counts[DROPPED] += 1
            self._connection.release(len(self._waiting.data))
        self.received += 1
        self._waiting = Frame(self.received, data, self._choice)
        self.is_busy = True

    async def _answer_all(self) -> None:
        with suppress(ConnectionClosed):
            while self._waiting is not None:
                frame, self._waiting = self._waiting, None
                try:
                    await self._answer(frame)
                finally:
                    self._connection.release(len(frame.data))
            self.is_busy = False
            if self._connection.ending.is_set():
                await self.close()
        self.is_busy = False

    async def _answer(self, frame: Frame) -> None:
        request_id = f"{self._connection.request_id[:100]}-{frame.number}"
        try:
            headers = {**frame.choice.headers(), **self._connection.credentials}
            response = await self._relay.ask(frame.data, headers, request_id)
        except Unavailable as error:  # most likely a stop
            with suppress(TimeoutError):
                await asyncio.wait_for(self._connection.ending.wait(), STOP_SECONDS)
            if self._connection.ending.is_set():
                await self.close()
                return
            response = failed(error, request_id)
        await self._send(response, frame)

    async def _send(self, response: FrameResponse, frame: Frame | None) -> None:
        dropped, self._dropped = self._dropped, 0
        self.dropped += dropped
        self.errors += response.status >= 400
        shown = dropped if frame and frame.choice.latest else None
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._connection.send(response.text(frame.number if frame else None, shown))
        except TimeoutError:
            self._connection.transport.abort()

    async def close(self) -> None:
        """Close with 1012, "service restart"; all accepted frames are answered by now."""
        await self._connection.close(CloseCode.SERVICE_RESTART, ENDING)
