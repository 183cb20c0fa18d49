"""How much memory requests may hold: all of a process together, and each for what it weighs.

A request takes its share before its body is read or parsed, as large as counting the body's structure tells, and gives
it back with the answer. A request that finds no memory is refused and does not wait: two requests that wait would each
hold what the other needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lightbox.core.errors import TooLarge, Unavailable
from lightbox.machine.memory import find_trim

if TYPE_CHECKING:
    from numpy.typing import NDArray


SETTING = "LIGHTBOX_REQUEST_MEMORY_MB"
MOST_PER_BYTE = 12
"""Bytes that reading a request may take for each byte that was sent, unfolded from gzip."""
SMALL = 32 << 20
"""Bytes that reading a request may take in any case."""


_LARGE = 16 << 20
"""A request that held as many bytes has the C library give back what it keeps; that takes milliseconds."""
_trim = find_trim()
STRING_BYTES = 64
"""What a short text takes as an element of a tensor."""


class MemoryBudget:
    """The bytes that the requests of one process may hold together; safe to use from several threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes that all shares hold now."""
        return self._held

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Yield a share for one request, and take all of it back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.hold(0)
            if share.most >= _LARGE:
                _trim()

    def change(self, by: int) -> bool:
        """Take or give back bytes; tell whether there are as many."""
        with self._lock:
            if by > 0 and self._held + by > self.size:
                return False
            self._held += by
            return True


class Share:
    """What one request holds, and the ``most`` that it has held, in bytes.

    ``weight`` is what was sent of it, or the tensors that it became.
    """

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget
        self._held = 0
        self.most = 0
        self.weight = 0

    def weigh(self, size: int) -> None:
        """Note that the request weighs at least ``size`` bytes."""
        self.weight = max(self.weight, size)

    def hold_tensors(self, body: int, tensors: Iterable[NDArray[Any]]) -> None:
        """Hold a body of so many bytes, its tensors, and two more copies of them: in the message, and in gRPC's copy.

        Raises as ``hold``, but tensors weigh what they are: a model may want eight bytes for each that was sent.
        """
        size = sum(
            array.nbytes + (STRING_BYTES * array.size + body if array.dtype.hasobject else 0) for array in tensors
        )
        self.weigh(size)
        self.hold(body + 3 * size, "the tensors")

    def hold(self, size: int, what: str = "the body") -> None:
        """Hold ``size`` bytes from now on, more or fewer than before.

        Raises TooLarge for more than MOST_PER_BYTE times the weight, and for more than there will ever be, and
        Unavailable for more than other requests leave; nothing changes then.
        """
        if size > max(SMALL, MOST_PER_BYTE * self.weight):
            raise TooLarge(
                f"{what}: reading {self.weight} bytes of many small values would take {size >> 20} MiB of memory, "
                f"more than {MOST_PER_BYTE} bytes for each; send a list of numbers, application/x-npy, raw tensors, or "
                "fewer at once"
            )
        if self._budget is None:
            return
        if size > self._budget.size:
            raise TooLarge(
                f"{what}: it would take {size >> 20} MiB of memory, and all requests of a process together have "
                f"{self._budget.size >> 20} MiB ({SETTING})"
            )
        if not self._budget.change(size - self._held):
            raise Unavailable(
                f"try again: {what} would take {size >> 20} MiB of memory, and other requests hold what it needs "
                f"({SETTING})"
            )
        self._held, self.most = size, max(size, self.most)
