"""HTTP/2 from nginx to an upstream: one stream on each connection, in both directions at once.

Unary calls come over HTTP/1.1, over which nginx cannot forward a stream's responses before its last message. The
package h2 implements the protocol. This module adds the socket and flow control: a caller that sends too fast waits,
as does a response that is not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes
from typing_extensions import override

Header = tuple[str, str]


class StreamConnection(asyncio.Protocol):
    """A connection from nginx with one stream. ``serve`` answers it, and is cancelled when the caller disconnects."""

    def __init__(self, serve: Callable[[StreamConnection], Awaitable[None]]) -> None:
        self.path = ""
        self.headers: dict[str, str] = {}
        self._serve = serve
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self._transport: asyncio.Transport
        self._number = 0
        self._chunks: deque[DataReceived] = deque()
        self._ended = False
        self._cut = False
        self._writable = True
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._h2.local_settings.update({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        self._h2.initiate_connection()
        self._flush()

    @override
    def data_received(self, data: bytes) -> None:
        if self._cut:  # h2 would answer late frames with an error, and nginx would end the call with that
            return
        try:
            for event in self._h2.receive_data(data):
                self._handle(event)
        except ProtocolError:
            self._flush()
            self._transport.close()
            return
        self._flush()
        self._news.set()

    def _handle(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._number = event.stream_id
            for name, value in event.headers:
                self.headers[str(name)] = str(value)
            self.path = self.headers[":path"]
            self._task = asyncio.create_task(self._run())
        elif isinstance(event, DataReceived):
            self._chunks.append(event)
        elif isinstance(event, StreamEnded):
            self._ended = True
        elif isinstance(event, StreamReset | ConnectionTerminated):
            self._transport.close()

    async def _run(self) -> None:
        """Serve the stream; nginx closes the connection after the end of the response."""
        try:
            await self._serve(self)
        except StreamClosedError:
            pass
        except BaseException:
            self._transport.close()
            raise
        finally:
            self._task = None  # a cancelled task keeps its frames and their objects

    @override
    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    @override
    def pause_writing(self) -> None:
        self._writable = False

    @override
    def resume_writing(self) -> None:
        self._writable = True
        self._news.set()

    async def chunk(self) -> bytes:
        """Return more of the caller's body, b"" at its end."""
        while not self._chunks:
            if self._ended:
                return b""
            await self._wait_for_change()
        event = self._chunks.popleft()
        if not self._ended:
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, self._number)
            self._flush()
        return bytes(event.data or b"") or await self.chunk()

    async def start(self, headers: Iterable[Header]) -> None:
        """Send the headers of the response."""
        self._h2.send_headers(self._number, [(":status", "200"), *headers])
        self._flush()

    async def send(self, data: bytes) -> None:
        """Send more of the response, as fast as the caller reads."""
        remaining = memoryview(data)
        while remaining:
            room = min(self._h2.local_flow_control_window(self._number), self._h2.max_outbound_frame_size)
            if not self._writable or room <= 0:
                await self._wait_for_change()
                continue
            self._h2.send_data(self._number, bytes(remaining[:room]))
            self._flush()
            remaining = remaining[room:]

    async def end(self, headers: Iterable[Header]) -> None:
        """Send the trailers of the response."""
        self._h2.send_headers(self._number, list(headers), end_stream=True)
        if not self._ended:  # the rest of the caller's body is not needed
            self._h2.reset_stream(self._number, ErrorCodes.NO_ERROR)
            self._cut = True
        self._flush()

    async def _wait_for_change(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _flush(self) -> None:
        self._transport.write(self._h2.data_to_send())
