"""Accounting of the request bodies that nginx holds.

Before nginx reads a large body it reserves its declared length here, and it logs a line when the request has ended.
The supervisor counts for all workers of nginx, as nginx itself can limit requests but not bytes.
"""

from __future__ import annotations

import re

from lightbox.base.machine.temporary_storage import free_bytes

ROOM = "/room/"
"""Path prefix of nginx's reservation. The worker's process id, the request's id and the number of bytes follow."""
FAILURE = "/refusal/507"
"""Path that nginx requests when there is no storage, and after a failure of its own."""

LENGTH_HEADER = "x-lightbox-length"
"""Header of a reservation with the length of the caller's body; empty if undeclared."""

SMALL_BYTES = 2 << 20
"""nginx keeps a body of this size in its buffer."""

STEPS_MB = (64, 16, 8, 2)
"""Reserved for a body of unknown length, in this order, if the largest one does not fit. A photo has less than 8 MiB,
and does not count as very large."""

VERY_LARGE_BYTES = 10_000_000
"""Larger bodies share half of the room, so that a few of them cannot block photos."""

_DIGITS = re.compile("[0-9]{1,18}")


def missing_storage(length: str, target: str) -> str | None:
    """Return the part of a body of ``length`` bytes that does not fit into TMPDIR; None if it fits, or is unknown.

    nginx keeps SMALL_BYTES in memory. A body without a declared length is admitted, and fails when TMPDIR is full.
    """
    if _DIGITS.fullmatch(length):
        size = int(length)
        return f"the request body of {size:,} bytes" if size > SMALL_BYTES and free_bytes() < size else None
    failed = target == FAILURE and free_bytes() < SMALL_BYTES
    return "a request body that declares no length" if failed else None


class BodyAccount:
    """The bytes of each request of each nginx worker: at most ``most`` together, and ``largest`` for one body."""

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self._largest = largest
        self._most_very_large = max(most // 2, largest)
        self._held: dict[tuple[str, str], int] = {}

    def instead(self, target: str, length: str) -> str | None:
        """Reserve room for ``/room/WORKER/REQUEST/BYTES``; return None, or the name of nginx's response.

        Zero bytes need no room. Responses: "up_to_MB" for a body of unknown length, with that much reserved; 507
        without storage for ``length``; "" without room.
        """
        if missing_storage(length, target):
            return "507"
        worker, request, size = target.removeprefix(ROOM).split("/")
        if not size or self.take(worker, request, int(size)):
            return None
        steps = () if length else [step for step in STEPS_MB if step << 20 < self._largest]
        return next((f"up_to_{step}" for step in steps if self.take(worker, request, step << 20)), "")

    def take(self, worker: str, request: str, size: int) -> bool:
        """Reserve ``size`` bytes for a body; return False, without a reservation, if there is no room."""
        held = sum(self._held.values())
        very_large = sum(bytes_ for bytes_ in self._held.values() if bytes_ > VERY_LARGE_BYTES)
        if held + size > self._most or (size > VERY_LARGE_BYTES and very_large + size > self._most_very_large):
            return False
        self._held[worker, request] = size
        return True

    def give_back(self, worker: str, request: str) -> None:
        """Release the reservation of a request, if it has one."""
        self._held.pop((worker, request), None)

    def lost_worker(self, worker: str) -> None:
        """Release all reservations of a worker that has died."""
        self._held = {key: size for key, size in self._held.items() if key[0] != worker}

    def clear(self) -> None:
        """Release all reservations, as nginx has ended."""
        self._held.clear()
