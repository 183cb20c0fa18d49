"""Opens, watches and ends streams: one event loop for all sockets, threads only for frames in progress."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from lightbox.base.error_bodies import error_body
from lightbox.base.errors import BadRequest, LightboxError, Unavailable
from lightbox.base.machine.local_sockets import QUEUE, listen
from lightbox.base.request_context import CREDENTIALS, choose_request_id
from lightbox.features.streams.forwarding import Relay
from lightbox.features.streams.frame_options import from_query
from lightbox.features.streams.stream import OPEN, Counts, FrameConnection, FrameProtocol, Held, Stream

log = logging.getLogger("lightbox")

PING_SECONDS = 20.0
"""Seconds of silence after which the peer gets a ping."""
SILENT_SECONDS = 60.0
"""Seconds of silence after which the stream is closed: the peer does not even answer pings."""
OPEN_SECONDS, CLOSE_SECONDS = 10.0, 1.0


class StreamServer:
    """Serves streams until ``stop``; at most ``most`` at a time, which hold ``most_bytes`` together.

    ``counts`` are the numbers of open streams and of dropped frames.
    """

    def __init__(self, relay: Relay, most: int, max_frame: int, most_bytes: int, counts: Counts | None = None) -> None:
        self._relay = relay
        self._counts: Counts = [0, 0] if counts is None else counts
        self._counts[OPEN] = 0
        self._most = most
        self._max_frame = max_frame
        self._held = Held(most_bytes)
        self._stopping = False
        self._ending = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: dict[FrameConnection, Stream] = {}
        self._opening: set[FrameConnection] = set()

    async def listen(self, address: str) -> Server:
        """Listen at ``unix:/path`` or ``host:port``."""
        # websockets logs callers' errors; our own are logged here.
        logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
        options: dict[str, Any] = {
            "create_connection": self._connection,
            "process_request": self._open,
            "compression": None,  # images are compressed; its buffers would be most of an idle stream's memory
            "max_queue": (0, 0),
            "ping_interval": None,  # a pong is late behind waiting frames: _watch counts everything received
            "open_timeout": OPEN_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "server_header": None,
        }
        return await serve(self._handle, sock=listen(address), backlog=QUEUE, **options)

    async def watch(self) -> None:
        """Ping silent peers, and close streams of peers that are gone, forever.

        It counts rounds and not the clock: while this process or its machine is suspended, no peer can be heard.
        """
        while True:
            await asyncio.sleep(PING_SECONDS / 4)
            for connection, stream in list(self._streams.items()):
                connection.silent = 0.0 if stream.is_busy else connection.silent + PING_SECONDS / 4
                if connection.silent > PING_SECONDS:
                    self._begin(_end(connection) if connection.silent > SILENT_SECONDS else _ping(connection))

    def renew(self) -> None:
        """Answer the accepted frames, then close every stream with 1012; streams opened from now on stay open."""
        ending, self._ending = self._ending, asyncio.Event()
        ending.set()
        for stream in self._streams.values():
            if not stream.is_busy:
                self._begin(stream.close())

    async def stop(self) -> None:
        """Do the same as ``renew``, refuse new streams, and return when all are closed."""
        self._stopping = True
        self.renew()
        while self._streams:
            await asyncio.sleep(0.02)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` as a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)  # keeps a reference to it
        task.add_done_callback(self._tasks.discard)

    def _connection(self, _: ServerProtocol, server: Server, **options: Any) -> FrameConnection:
        # websockets lets callers choose the connection class, but not the protocol class.
        connection = FrameConnection(FrameProtocol(max_size=self._max_frame), server, **options)
        connection.held, connection.ending = self._held, self._ending
        return connection

    def _open(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the refusal of an opening request, None to open the stream."""
        assert isinstance(connection, FrameConnection)
        connection.request_id = choose_request_id(request.headers.get)
        passed = ("Host", *CREDENTIALS)  # nginx may not serve another Host
        connection.credentials = {name: sent[0] for name in passed if (sent := request.headers.get_all(name))}
        try:
            connection.choice = from_query(request.path.partition("?")[2])
            if request.headers.get("Upgrade", "").lower() != "websocket":
                raise BadRequest("this route takes WebSockets: expected the header Upgrade: websocket", status=426)
            if self._stopping or len(self._streams) + len(self._opening) >= self._most:
                raise Unavailable(f"try again: {self._most} streams are open, which is the limit")
        except LightboxError as error:
            return _refusal(connection, error)
        self._opening.add(connection)
        connection.connection_lost_waiter.add_done_callback(lambda _: self._opening.discard(connection))
        return None

    async def _handle(self, connection: ServerConnection) -> None:
        assert isinstance(connection, FrameConnection)
        stream = self._streams[connection] = Stream(connection, self._relay, self._counts)
        self._opening.discard(connection)
        opened = time.monotonic()
        self._counts[OPEN] += 1
        try:
            if connection.ending.is_set():
                await stream.close()
            await stream.run()
        except Exception:
            log.exception("stream %s: internal error", connection.request_id)
            raise
        finally:
            del self._streams[connection]
            self._counts[OPEN] -= 1
            log.info(
                "stream %s: closed with %s after %.1f s; frames=%d errors=%d dropped=%d",
                connection.request_id,
                sent.code if (sent := connection.protocol.close_sent) else connection.close_code,
                time.monotonic() - opened,
                stream.received,
                stream.errors,
                stream.dropped,
            )


async def _ping(connection: FrameConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        await connection.ping()


async def _end(connection: FrameConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        await connection.close(CloseCode.INTERNAL_ERROR, f"no sign of life for {SILENT_SECONDS:g} s")


def _refusal(connection: FrameConnection, error: LightboxError) -> Response:
    response = connection.respond(error.status, error_body(error, connection.request_id).decode())
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    if error.status == 426:
        response.headers["Upgrade"] = "websocket"
    if error.status == 503:
        response.headers["Retry-After"] = "1"
    return response
