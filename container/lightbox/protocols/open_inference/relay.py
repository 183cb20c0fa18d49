"""The two connections of a relay: what comes on one is told frame by frame, what goes out is gathered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from lightbox.protocols.open_inference import http2


class Relay(Protocol):
    """Who has the two sides."""

    def opened(self, side: Side) -> None:
        """Hear that a side is connected."""
        ...

    def close(self) -> None:
        """Close both sides."""
        ...


class Side(asyncio.Protocol):
    """The caller's or the server's side: frames that come are told, frames to be sent are gathered."""

    def __init__(self, frames: http2.Frames, on_frame: Callable[[http2.Frame], None], relay: Relay) -> None:
        self.frames = frames
        self.other: Side
        self._on_frame = on_frame
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._relay.opened(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        try:
            for frame in self.frames.feed(data):
                self._on_frame(frame)
        except http2.BadFrames:
            self._relay.close()
        self.other.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
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

    def close(self) -> None:
        """Close, after what was gathered has gone out."""
        self.flush()
        if self._transport is not None:
            self._transport.close()
