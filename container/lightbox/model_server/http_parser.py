"""Parses HTTP/1.1 requests from bytes in any pieces, with limits for everything that a client can enlarge."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 29
"""A longer body is refused by its declared length, before any of it is stored."""

_MAX_CHUNK_LINE = 1 << 10
_PIECE = 1 << 16
_LENGTH = re.compile("[0-9]{1,64}", re.ASCII)
"""Python refuses numbers of thousands of digits with an error of its own."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]+")
_METHODS = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}


class HttpError(Exception):
    """A request that gets an HTML page, as from libevent, and a closed connection."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Request:
    """One request; header names are in lower case, ``target`` is unchanged."""

    method: str
    target: str
    minor_version: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open after the response."""
        connection = self.headers.get("connection", "").lower()
        if self.minor_version == 0:
            return "keep-alive" in connection
        return "close" not in connection


class RequestParser:
    """Takes bytes with ``feed``, which returns a request once it is complete."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._begun = False
        self._requests = self._read()
        self.expects_continue = False

    @property
    def idle(self) -> bool:
        """Whether no byte of a request has arrived."""
        return not self._begun and not self._pending

    def feed(self, data: bytes | memoryview) -> Request | None:
        """Add bytes; return the request that they complete. Raises HttpError for invalid HTTP, or too much."""
        self._pending += data
        return next(self._requests)

    def _read(self) -> Iterator[Request | None]:
        """Yield each request, and None when more bytes are needed."""
        while True:
            while (start := bytes(self._pending[:2])) in (b"", b"\r", b"\r\n"):  # empty lines between requests
                if len(start) == 2:
                    del self._pending[:2]
                else:
                    yield None
            yield (yield from self._request())  # not in a variable: a body must not stay until the next request

    def _request(self) -> Generator[None, None, Request]:
        head = yield from self._until(b"\r\n\r\n", MAX_HEAD_BYTES, 413)
        request = _parse_head(head.decode("utf-8", "surrogateescape"))
        self._begun = True
        length = request.headers.get("content-length", "0").strip()
        if not _LENGTH.fullmatch(length):
            raise HttpError(400)
        self.expects_continue = "100-continue" in request.headers.get("expect", "").lower()
        if "chunked" in request.headers.get("transfer-encoding", "").lower():
            yield from self._chunks(request)
        else:
            _check_room(request, int(length))
            request.body = yield from self._take(int(length))
        self._begun = self.expects_continue = False
        return request

    def _until(self, mark: bytes, most: int, status: int) -> Generator[None, None, bytes]:
        """Consume the bytes before ``mark``; raise HttpError with ``status`` beyond ``most`` bytes."""
        searched = 0
        while (end := self._pending.find(mark, searched)) < 0 and len(self._pending) <= most:
            searched = max(0, len(self._pending) - len(mark) + 1)
            yield None
        if end < 0 or end > most:
            raise HttpError(status)
        found = bytes(self._pending[:end])
        del self._pending[: end + len(mark)]
        return found

    def _take(self, size: int) -> Generator[None, None, bytearray]:
        """Consume ``size`` bytes; copies the shorter part of the buffer."""
        while len(self._pending) < size:
            yield None
        if 2 * size < len(self._pending):
            taken = self._pending[:size]
            del self._pending[:size]  # moves nothing: many requests in one piece cost no more than one by one
        else:
            taken, self._pending = self._pending, self._pending[size:]
            del taken[size:]
        return taken

    def _chunks(self, request: Request) -> Generator[None, None, None]:
        size = -1
        while size:
            line = yield from self._until(b"\r\n", _MAX_CHUNK_LINE, 400)
            if not line:  # after a chunk
                continue
            digits = line.partition(b";")[0].rstrip(b" \t")
            if not _CHUNK_SIZE.fullmatch(digits):
                raise HttpError(400)
            size = int(digits, 16)
            _check_room(request, size)
            for start in range(0, size, _PIECE):  # in pieces: a long chunk is in memory only once
                request.body += yield from self._take(min(_PIECE, size - start))
        while (yield from self._until(b"\r\n", _MAX_CHUNK_LINE, 400)):
            pass  # the trailer


def _check_room(request: Request, size: int) -> None:
    """Raise HttpError if ``size`` more bytes exceed the limit of a body."""
    if len(request.body) + size > MAX_BODY_BYTES:
        raise HttpError(413)


def _parse_head(head: str) -> Request:
    first, *lines = head.split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1") or not parts[1]:
        raise HttpError(400)
    if parts[0] not in _METHODS:
        raise HttpError(501)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError(400)
        headers.setdefault(name.strip().lower(), value.strip())
    return Request(parts[0], parts[1], int(parts[2][-1]), headers)
