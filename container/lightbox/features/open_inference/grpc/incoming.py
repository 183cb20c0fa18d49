"""Incoming messages: split from nginx's request bodies, and counted over all calls until they are answered.

nginx streams bodies, and does not limit the sum of their bytes. Here a call has a message, an idle place or a pending
answer, and the calls together have a limit for each.
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md defines the form of messages: a compression flag in one
byte, the length in four, the content.
"""

from __future__ import annotations

import asyncio
import math
import re
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lightbox.base.errors import DeadlineExceeded, LightboxError, MalformedBody, TooLarge, Unavailable
from lightbox.base.machine.memory import find_trim

MAX_CALLS = 1024
"""Open calls, including idle streams. One more ends the call that has waited longest for its caller."""
RECEIVE_SECONDS = 60.0
"""Seconds for a whole message from its first byte; for a unary call's from its headers."""
SILENT_SECONDS = 10.0
"""Seconds of silence after which nginx aborts a body over HTTP/1.1."""
PREFIX = 5
ENCODINGS = ("gzip", "deflate")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT = re.compile("([0-9]{1,8})([HMSmun])")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_UNFOLDED_AT_ONCE = 1 << 18
_HEAD = 1 << 10
_MUCH = 32 << 20
"""After this many bytes of released messages, free memory is returned to the system, which remaining messages
fragment."""

Chunks = Callable[[], Awaitable[bytes]]
"""Returns more of a call's body, b"" at its end. Raises ClientDisconnected."""


@dataclass(frozen=True)
class Bounds:
    """Limits in bytes: ``message`` for one message, ``together`` for all unanswered ones."""

    message: int
    together: int
    calls: int = MAX_CALLS
    receive_seconds: float = RECEIVE_SECONDS


class Account:
    """The bytes of all open calls of this process. Belongs to one event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.calls: set[Incoming] = set()
        self.waiting: dict[Incoming, float] = {}
        """Calls that wait for their callers to send or read, with the loop's time; the longest waiting one is first."""
        self.held = 0
        self._freed = 0
        self._trim = find_trim()

    @contextmanager
    def open(self, call: Incoming) -> Iterator[None]:
        """Count a call inside the block; its message counts until its ``release``.

        At the limit, ends a call that waits for its caller. Raises Unavailable if there is none.
        """
        if len(self.calls) >= self.bounds.calls:
            longest = next(iter(self.waiting), None)
            most = f"try again: {self.bounds.calls} gRPC calls are open"
            if longest is None:
                raise Unavailable(f"{most} already")
            longest.end(Unavailable(f"{most}, and this one has waited longest for its caller"))
        self.calls.add(call)
        try:
            yield
        finally:
            self.calls.discard(call)

    def renew(self, why: str) -> None:
        """End every open stream once its current message is answered, and every unary call whose caller has been silent
        for SILENT_SECONDS: nginx waits for them."""
        silent = asyncio.get_running_loop().time() - SILENT_SECONDS
        for call in [one for one in self.calls if one.is_stream or self.waiting.get(one, math.inf) < silent]:
            call.end(Unavailable(why))

    def hold(self, call: Incoming, size: int) -> None:
        """Set the bytes that a call holds; beyond the limit of all calls, end the largest incoming message.

        Raises Unavailable if that is the call's own.
        """
        self.held += size - call.held
        self._freed += max(0, call.held - size)
        call.held = size
        while self.held > self.bounds.together and size:
            largest = max(self.waiting, key=lambda one: one.held, default=call)
            most = f"{self.bounds.together >> 20} MiB, twice LIGHTBOX_MAX_BODY_MB"
            full = Unavailable(f"try again: gRPC messages hold as much memory as they may together, {most}")
            if largest.held <= size:
                raise full
            largest.end(full)
        if self._freed > _MUCH:
            self._freed = 0
            asyncio.get_running_loop().run_in_executor(None, self._trim)


class Incoming:
    """The messages of one call. ``encoding`` is the compression of flagged ones."""

    def __init__(self, account: Account, chunks: Chunks, encoding: str | None, is_stream: bool) -> None:
        self.is_stream = is_stream
        self.held = 0
        self.came = 0
        """Bytes received in all."""
        self._account = account
        self._chunks = chunks
        self._encoding = encoding
        self._parts: deque[bytes] = deque()
        self._size = 0  # of all parts
        self._given = 0  # bytes of the last returned message
        self._lent = False
        self._task: asyncio.Task[object] | None = None
        self.error: LightboxError | None = None
        """The reason for its end."""

    def end(self, error: LightboxError) -> None:
        """Make ``message`` raise ``error``, at once if it waits; drop the partial message."""
        self.error = error
        if self in self._account.waiting and self._task is not None:
            del self._account.waiting[self]
            self.drop()
            self._task.cancel()

    def drop(self) -> None:
        """Drop and stop counting everything except a lent message."""
        self._parts.clear()
        self._size = 0
        self._given = self._given if self._lent else 0
        self._count()

    def lend(self) -> Callable[[], None]:
        """Count the last message until the returned function is called, even beyond the call."""
        self._lent = True
        return self.release

    def release(self, response_size: int = 0) -> None:
        """Stop counting the last message; count a response of ``response_size`` bytes until it is read."""
        self._given, self._lent = response_size, False
        self._count()

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Mark the call as waiting for its caller inside the block; it may be ended meanwhile."""
        self._task = asyncio.current_task()
        self._account.waiting[self] = asyncio.get_running_loop().time()
        try:
            yield
        except asyncio.CancelledError:
            if self.error is None or self._task is None:
                raise
            self._task.uncancel()
            raise self.error from None
        finally:
            self._account.waiting.pop(self, None)

    def _count(self) -> None:
        self._account.hold(self, self._size + self._given)

    async def only_message(self) -> bytes:
        """Return the message of a unary call."""
        message = await self.message()
        if message is None or await self.message() is not None:
            raise Unimplemented("expected exactly one message: the method takes no stream")
        return message

    async def message(self) -> bytes | None:
        """Return the next message, None after the last one; it counts until ``release``.

        Raises TooLargeMessage beyond the limit; a stream then skips the message. Raises DeadlineExceeded for a slow
        message, MalformedBody for an unreadable one, Unavailable if all calls hold too much.
        """
        if self.error is not None:
            raise self.error
        loop = asyncio.get_running_loop()
        seconds = self._account.bounds.receive_seconds
        try:
            async with asyncio.timeout(None if self.is_stream else seconds) as limit:
                while self._size < PREFIX:
                    if not await self._more():
                        if self._size:
                            raise MalformedBody("the body ends within a message")
                        return None
                    if self.is_stream:
                        limit.reschedule(loop.time() + seconds)
                prefix = self._take(PREFIX)
                content = await self._content(int.from_bytes(prefix[1:], "big"))
                return await self._decompress(content) if prefix[0] else content
        except TimeoutError:
            raise DeadlineExceeded(f"the message was not complete within {seconds:g} s") from None
        except BaseException:
            self.release()  # of a message that could not be decompressed
            raise

    async def _content(self, size: int) -> bytes:
        if size > self._account.bounds.message:
            raise self._too_large(await self._skip(size))
        while self._size < size:
            if not await self._more():
                raise MalformedBody("the body ends within a message")
        content = self._take(size)
        self._given = size
        self._count()
        return content

    def _too_large(self, head: bytes) -> TooLargeMessage:
        most = self._account.bounds.message >> 20
        return TooLargeMessage(f"the message is larger than LIGHTBOX_MAX_BODY_MB={most} MiB", head)

    async def _skip(self, size: int) -> bytes:
        """Skip a message of a stream, whose next ones can be answered, and return its head; a unary call ends."""
        head = b""
        while self.is_stream and size:
            if not self._size and not await self._more():
                break
            part = self._take(min(size, self._size))
            head = head or part[:_HEAD]
            size -= len(part)
        return head

    def _take(self, size: int) -> bytes:
        """Return the next ``size`` received bytes."""
        self._size -= size
        taken: list[bytes] = []
        while size:
            part = self._parts.popleft()
            if len(part) > size:
                self._parts.appendleft(part[size:])
                part = part[:size]
            taken.append(part)
            size -= len(part)
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def _more(self) -> bool:
        """Receive more bytes; return whether there were any."""
        with self.waits():
            chunk = await self._chunks()
        self.came += len(chunk)
        if chunk:
            self._parts.append(chunk)
            self._size += len(chunk)
            self._count()
        return bool(chunk)

    async def _decompress(self, content: bytes) -> bytes:
        """Return a compressed message's content. It counts while it grows; other tasks run in between."""
        if self._encoding not in ENCODINGS:
            raise MalformedBody(f"grpc-encoding: expected one of {', '.join(ENCODINGS)}, got {self._encoding!r}")
        inflater, parts, size, remaining = zlib.decompressobj(_GZIP_OR_ZLIB), [], 0, content
        while not inflater.eof:
            try:
                part = inflater.decompress(remaining, _UNFOLDED_AT_ONCE)
            except zlib.error as error:
                raise MalformedBody(f"the message is no {self._encoding}: {error}") from error
            if not part and not inflater.eof:
                raise MalformedBody(f"the message ends within its {self._encoding}")
            remaining = inflater.unconsumed_tail
            parts.append(part)
            size += len(part)
            if size > self._account.bounds.message:
                raise self._too_large(parts[0][:_HEAD])
            self._given = len(content) + size
            self._count()
            await asyncio.sleep(0)
        if inflater.unused_data:
            raise MalformedBody(f"bytes follow the {self._encoding} of the message")
        self._given = size
        self._count()
        return b"".join(parts)


class TooLargeMessage(TooLarge):
    """A message beyond the limit; ``head`` is its beginning, if known."""

    def __init__(self, message: str, head: bytes = b"") -> None:
        super().__init__(message)
        self.head = head


class Unimplemented(LightboxError):
    """The method does not exist, or takes another number of messages."""

    code = "method_not_allowed"


def seconds_left(timeout: str | None) -> float:
    """Return the seconds in gRPC's header ``grpc-timeout``; infinity if it is absent or malformed."""
    found = _TIMEOUT.fullmatch(timeout or "")
    return int(found[1]) * _UNITS[found[2]] if found else math.inf
