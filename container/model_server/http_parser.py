"""HTTP/1.1 requests from bytes that arrive in any pieces, with bounds on all that a client can make grow."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 29
"""A longer body is refused when its length is declared, before any of it is kept."""

_MAX_CHUNK_LINE = 1 << 10
_LENGTH = re.compile("[0-9]{1,64}", re.ASCII)
"""Python refuses to read numbers of thousands of digits, in an error of its own."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]+")
_METHODS = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}


class HttpError(Exception):
    """A request that is answered with an HTML page, as libevent does it, and whose connection is closed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Request:
    """One request; header names are in lower case, ``target`` is as it was sent."""

    method: str
    target: str
    minor_version: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open after the answer."""
        connection = self.headers.get("connection", "").lower()
        if self.minor_version == 0:
            return "keep-alive" in connection
        return "close" not in connection


class RequestParser:
    """Takes bytes with ``feed``; ``request`` is there once a whole one has arrived."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0
        self._partial: Request | None = None
        self._missing = 0
        self._chunked = False
        self.expects_continue = False

    @property
    def idle(self) -> bool:
        """Whether no part of a request has arrived."""
        return self._partial is None and not self._pending

    def feed(self, data: bytes | memoryview) -> Request | None:
        """Add bytes; return the request that they complete. Raises HttpError for no HTTP, or too much."""
        self._pending += data
        if self._partial is None and not self._read_head():
            return None
        assert self._partial is not None
        finished = self._read_chunks() if self._chunked else self._read_length()
        if not finished:
            return None
        request, self._partial = self._partial, None
        return request

    def _read_head(self) -> bool:
        while self._pending[:2] == b"\r\n":
            del self._pending[:2]
        end = self._pending.find(b"\r\n\r\n", self._searched)
        self._searched = max(0, len(self._pending) - 3) if end < 0 else 0
        if end < 0 and len(self._pending) <= MAX_HEAD_BYTES:
            return False
        if end < 0 or end > MAX_HEAD_BYTES:
            raise HttpError(413)
        head = bytes(self._pending[:end]).decode("utf-8", "surrogateescape")
        del self._pending[: end + 4]
        self._partial = _parse_head(head)
        self._plan_body(self._partial)
        return True

    def _plan_body(self, request: Request) -> None:
        headers = request.headers
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "0").strip()
        if not _LENGTH.fullmatch(length):
            raise HttpError(400)
        self._missing = 0 if self._chunked else int(length)
        if self._missing > MAX_BODY_BYTES:
            raise HttpError(413)
        self.expects_continue = "100-continue" in headers.get("expect", "").lower()

    def _read_length(self) -> bool:
        assert self._partial is not None
        taken = min(self._missing, len(self._pending))
        if taken == len(self._pending) and not self._partial.body:
            self._partial.body, self._pending = self._pending, bytearray()
        else:
            self._partial.body += self._pending[:taken]
            del self._pending[:taken]  # moves nothing: requests that came in one piece cost no more than one by one
        self._missing -= taken
        return self._missing == 0

    def _read_chunks(self) -> bool:
        assert self._partial is not None
        while True:
            if self._missing > 0:
                taken = min(self._missing, len(self._pending))
                self._partial.body += self._pending[:taken]
                del self._pending[:taken]
                self._missing -= taken
                if self._missing:
                    return False
            line = self._line()
            if line is None:
                return False
            if self._chunked_done(line):
                return True

    def _line(self) -> bytes | None:
        end = self._pending.find(b"\r\n")
        if end < 0:
            if len(self._pending) > _MAX_CHUNK_LINE:
                raise HttpError(400)
            return None
        line = bytes(self._pending[:end])
        del self._pending[: end + 2]
        return line

    def _chunked_done(self, line: bytes) -> bool:
        """Read a size line, the empty line after a chunk, or the trailer; return whether all is read."""
        if self._missing < 0:
            return not line
        if not line:
            return False
        size = line.partition(b";")[0].rstrip(b" \t")
        if not _CHUNK_SIZE.fullmatch(size):
            raise HttpError(400)
        self._missing = int(size, 16)
        assert self._partial is not None
        if len(self._partial.body) + self._missing > MAX_BODY_BYTES:
            raise HttpError(413)
        if self._missing == 0:
            self._missing = -1
        return False


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
