"""As much of HTTP/2 as counting takes: where frames begin and end, and where gRPC's messages do in them.

RFC 9113, and gRPC's own document of its messages: a byte that tells whether it is compressed, four of length, content.
"""

from __future__ import annotations

import math
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lightbox.core.errors import LightboxError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, CONTINUATION = 0, 1, 3, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
NO_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 7, 8, 11
MAX_FRAME = 16_384
"""Bytes of a frame's payload that a server takes unless it says otherwise, and ours does not."""
MAX_HEADERS = 1 << 15
"""Bytes of headers and their continuations; gRPC's server takes half as many."""
_HEAD = 9
_PREFIX = 5
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_USUAL_RATIO = 16
_AT_ONCE = 1 << 16
MOST_UNFOLDED = 1032
"""Bytes that one byte of a compressed message can become at most (zlib)."""


class BadFrames(ValueError):
    """What came is no HTTP/2, or beyond its bounds."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame; one of HEADERS has its continuations with it. ``data`` is all of it, to be passed on."""

    kind: int
    flags: int
    stream: int
    data: bytes

    @property
    def ends_stream(self) -> bool:
        """Whether its sender says nothing more on this stream."""
        return self.kind == RESET or (self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM))

    @property
    def refuses_stream(self) -> bool:
        """Whether the server has not begun with this stream; gRPC's says so with the second code."""
        return self.kind == RESET and int.from_bytes(self.data[_HEAD:], "big") in (REFUSED_STREAM, ENHANCE_YOUR_CALM)

    def content(self) -> bytes:
        """Return what a DATA frame carries, without its padding."""
        if (
            not self.flags & PADDED or len(self.data) == _HEAD
        ):  # a padded frame without its length is the server's to judge
            return self.data[_HEAD:]
        return self.data[_HEAD + 1 : max(_HEAD + 1, len(self.data) - self.data[_HEAD])]


class Frames:
    """Cuts what one side sends into frames, each given out when all of it is there."""

    def __init__(self, max_frame: int, preface: bytes = b"") -> None:
        self._max_frame = max_frame
        self._preface = preface
        self._rest = bytearray()
        self._headers: Frame | None = None
        self.unfinished_since = time.monotonic()
        """When the frame began that is not whole yet, at first when there was none; infinity where none is."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Raises BadFrames."""
        self._rest += data
        start = self._skip_preface()
        while (end := self._end(start)) is not None:
            yield from self._whole(bytes(self._rest[start:end]))
            start = end
        del self._rest[:start]
        if not self._rest and not self._preface and self._headers is None:
            self.unfinished_since = math.inf
        elif start or self.unfinished_since == math.inf:
            self.unfinished_since = time.monotonic()

    def _skip_preface(self) -> int:
        found = self._rest[: len(self._preface)]
        if found != self._preface[: len(found)]:
            raise BadFrames("expected the preface of HTTP/2")
        if len(found) < len(self._preface):
            return 0
        self._preface, size = b"", len(self._preface)
        return size

    def _end(self, start: int) -> int | None:
        """Return where the frame at ``start`` ends, None while a part of it is missing."""
        if self._preface or len(self._rest) - start < _HEAD:
            return None
        size = int.from_bytes(self._rest[start : start + 3], "big")
        if size > self._max_frame:
            raise BadFrames(f"expected a frame of at most {self._max_frame} bytes, got {size}")
        end = start + _HEAD + size
        return end if end <= len(self._rest) else None

    def _whole(self, data: bytes) -> Iterator[Frame]:
        frame = Frame(data[3], data[4], int.from_bytes(data[5:9], "big") & 0x7FFFFFFF, data)
        if (before := self._headers) is not None:
            if (
                frame.kind != CONTINUATION
                or frame.stream != before.stream
                or len(before.data) + len(data) > MAX_HEADERS
            ):
                raise BadFrames("expected the rest of the headers")
            frame = Frame(HEADERS, before.flags | frame.flags & END_HEADERS, frame.stream, before.data + data)
        self._headers = None if frame.kind != HEADERS or frame.flags & END_HEADERS else frame
        if self._headers is None:
            yield frame


class Unfolded:
    """Counts what a compressed message becomes while it comes, and keeps nothing of it.

    Where it becomes far more than it is, or cannot be read, that is not worth the time: ``size`` is None then.
    """

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._taken = 0
        self.size: int | None = 0

    def feed(self, data: bytes) -> None:
        """Take more of the message."""
        self._taken += len(data)
        while data and self.size is not None:
            try:
                self.size += len(self._inflater.decompress(data, _AT_ONCE))
            except zlib.error:
                self.size = None
                return
            data = self._inflater.unconsumed_tail
            if self.size > _USUAL_RATIO * self._taken + _AT_ONCE or self._inflater.unused_data:
                self.size = None


class Messages:
    """Finds where the messages of one stream end. ``partial`` is what has come of one that is not whole yet."""

    def __init__(self) -> None:
        self.partial = 0
        self.declared = 0
        """The length of the message that is coming, or of the last one; 0 before its prefix is there."""
        self._prefix = b""
        self.unfolded: Unfolded | None = None
        """Of the compressed message that is coming, or of the last one."""

    def feed(self, data: bytes) -> Iterator[tuple[int, bool]]:
        """Yield the length of each message that ``data`` completes, and whether it is compressed."""
        start = 0
        while start < len(data):
            if len(self._prefix) < _PREFIX:
                taken = data[start : start + _PREFIX - len(self._prefix)]
                self._prefix += taken
                self.declared = int.from_bytes(self._prefix[1:], "big") if len(self._prefix) == _PREFIX else 0
                self.unfolded = Unfolded() if self._prefix[0] and len(self._prefix) == _PREFIX else self.unfolded
                size = len(taken)
            else:
                size = min(len(data) - start, _PREFIX + self.declared - self.partial)
                if self._prefix[0] and self.unfolded is not None:
                    self.unfolded.feed(data[start : start + size])
            start += size
            self.partial += size
            if len(self._prefix) == _PREFIX and self.partial == _PREFIX + self.declared:
                compressed = bool(self._prefix[0])
                self._prefix, self.partial = b"", 0
                yield self.declared, compressed


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame's bytes."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def reset(stream: int, code: int) -> bytes:
    """Return a frame that ends a stream for both sides."""
    return frame(RESET, 0, stream, code.to_bytes(4, "big"))


def trailers(stream: int, fields: dict[str, str], alone: bool) -> bytes:
    """Return the headers that end an answer; ``alone`` when no headers were sent before them."""
    start = {":status": "200", "content-type": "application/grpc"} if alone else {}
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, written_out(start | fields))


def written_out(fields: dict[str, str]) -> bytes:
    """Return headers without the table that both ends of a connection share: what the server has in it stays so."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(text: str) -> bytes:
    """Return a text behind its length, as RFC 7541 writes a whole number behind one bit."""
    data = text.encode("latin-1")
    if len(data) < 127:
        return bytes([len(data)]) + data
    head, left = bytearray([127]), len(data) - 127
    while left >= 128:
        head.append(left % 128 + 128)
        left //= 128
    return bytes([*head, left]) + data


class OpenCall:
    """One call: what has come of its messages, and what is not answered yet."""

    def __init__(self, number: int, end: Callable[[OpenCall, LightboxError], None]) -> None:
        self.number = number
        self._end = end
        self.incoming = Messages()
        self.outgoing = Messages()
        self.since = 0.0
        """When the message began that is not whole yet."""
        self.held = 0
        self.has_headers = False
        """Whether the server has begun to answer."""
        self._whole_sizes: deque[int] = deque()
        self._whole = 0

    def take(self, content: bytes, most: int) -> int:
        """Return what the call holds, in bytes, with more content of the caller's; ``most`` is what a message may be.

        A compressed message counts as what it unfolds to, or may where that is not known: the server unfolds it as
        soon as it is whole.
        """
        if not self.incoming.partial:
            self.since = time.monotonic()
        for size, compressed in self.incoming.feed(content):
            counted = min(most, self._unfolded(size)) if compressed else size
            self._whole_sizes.append(counted)
            self._whole += counted
            self.since = time.monotonic()
        return self._whole + self.incoming.partial

    def _unfolded(self, size: int) -> int:
        known = self.incoming.unfolded.size if self.incoming.unfolded is not None else None
        return MOST_UNFOLDED * size if known is None else max(size, known)

    def answer(self, content: bytes) -> int:
        """Return what the call holds after more content of the server's: each answer is that of one message."""
        for _ in self.outgoing.feed(content):
            if self._whole_sizes:
                self._whole -= self._whole_sizes.popleft()
        return self._whole + self.incoming.partial

    def end(self, error: LightboxError) -> None:
        """Give the caller a status, and tell the server that the caller has cancelled the call."""
        self._end(self, error)
