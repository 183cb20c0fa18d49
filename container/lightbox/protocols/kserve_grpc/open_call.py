"""One gRPC call as the gate sees it, on its way to the server and back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from lightbox.errors import LightboxError
from lightbox.protocols.kserve_grpc import http2

MOST_UNFOLDED = 1032
"""Bytes that one byte of a compressed message can become at most (zlib)."""


class OpenCall:
    """One call: what has come of its messages, and what is not answered yet."""

    def __init__(self, number: int, end: Callable[[OpenCall, LightboxError], None]) -> None:
        self.number = number
        self._end = end
        self.incoming = http2.Messages()
        self.outgoing = http2.Messages()
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
