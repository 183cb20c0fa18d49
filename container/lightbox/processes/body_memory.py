"""How much of request bodies nginx holds.

nginx asks for room for each large body, by its declared length before any of it is read, and logs a line when it is
done with the request. The supervisor counts for all of nginx's workers: nginx itself can count requests, not bytes.
"""

from __future__ import annotations

import re

from lightbox.core.settings import Settings
from lightbox.machine.memory import available_bytes
from lightbox.machine.temporary_storage import free_bytes

ROOM = "/room/"
"""How the path of nginx's question begins. The worker's process id, the request's id and the body's bytes follow."""
FAILURE = "/refusal/507"
"""What nginx asks for where it was told that there is no storage, and where it has failed itself at a request."""

LENGTH_HEADER = "x-lightbox-length"
"""Where nginx's questions have the length of the caller's body, empty where it declared none."""

COUNTED_BYTES = 1_000_000
"""Smaller bodies are not asked for: nginx bounds their number."""

SMALL_BYTES = 2 << 20
"""What a body of unknown length counts, and may have, where the largest finds no room: nginx keeps it in its buffer."""

VERY_LARGE_BYTES = 10_000_000
"""Larger bodies share half of the room, so that a few of them keep no photo out."""

_DIGITS = re.compile("[0-9]{1,18}")


def room_for_bodies(settings: Settings) -> int:
    """Return the bytes that large bodies may hold together: as memory is set or free now, and TMPDIR has room."""
    room = free_bytes() // 2
    if "request_memory_mb" in settings.model_fields_set:
        room = min(room, settings.request_memory_mb << 20)
    elif (memory := available_bytes()) is not None:
        room = min(room, memory // 4)
    return max(2 * settings.max_body_mb << 20, room)


def missing_storage(length: str, target: str) -> str | None:
    """Return what does not fit into TMPDIR of a body of ``length`` bytes, None where all does, or nothing is known.

    nginx keeps SMALL_BYTES in memory. A body that declares no length is let in, and told of when it did not fit.
    """
    if _DIGITS.fullmatch(length):
        size = int(length)
        return f"the request body of {size:,} bytes" if size > SMALL_BYTES and free_bytes() < size else None
    failed = target == FAILURE and free_bytes() < SMALL_BYTES
    return "a request body that declares no length" if failed else None


class BodyAccount:
    """What each request of each nginx worker holds. ``most`` bytes together; ``largest`` is the largest body's."""

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self._most_very_large = max(most // 2, largest)
        self._held: dict[tuple[str, str], int] = {}

    def instead(self, target: str, length: str) -> str | None:
        """Take room for ``/room/WORKER/REQUEST/BYTES``, or say what comes instead of an answer.

        No bytes need no room. Else that is "small" where a body of unknown length may have SMALL_BYTES, which are
        taken; 507 for a ``length`` for which there is no storage; nothing where there is no room.
        """
        if missing_storage(length, target):
            return "507"
        worker, request, size = target.removeprefix(ROOM).split("/")
        if not size or self.take(worker, request, int(size)):
            return None
        return "small" if not length and self.take(worker, request, SMALL_BYTES) else ""

    def take(self, worker: str, request: str, size: int) -> bool:
        """Note a body of ``size`` bytes; return False, and note nothing, where there is no room for it."""
        held = sum(self._held.values())
        very_large = sum(bytes_ for bytes_ in self._held.values() if bytes_ > VERY_LARGE_BYTES)
        if held + size > self._most or (size > VERY_LARGE_BYTES and very_large + size > self._most_very_large):
            return False
        self._held[worker, request] = size
        return True

    def give_back(self, worker: str, request: str) -> None:
        """Note that nginx is done with a request, whether its body was counted or not."""
        self._held.pop((worker, request), None)

    def lost_worker(self, worker: str) -> None:
        """Note that a worker of nginx is gone, with all that it held."""
        self._held = {key: size for key, size in self._held.items() if key[0] != worker}

    def clear(self) -> None:
        """Note that nginx is gone."""
        self._held.clear()
