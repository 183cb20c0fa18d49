"""Which of a process's requests go next, so that no model holds what others need while they wait.

A request has a place in its model's queue, counted in all processes, and then a turn in its process. It returns the
turn while the user's code has it, as that may wait for others: turns are for decoding, tensors and predictions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from typing_extensions import override

from lightbox.base.errors import KEY_FULL, SHARE_FULL, DeadlineExceeded, QueueFull, RateLimited
from lightbox.base.request_context import Key, Turn
from lightbox.core.places import ModelPlaces, Places

_PAUSE_SECONDS = 0.02
"""Time between two looks of a queue's first request at those of other processes."""
_LONG_PAUSE_SECONDS = 0.2
"""The same of the others, of which one may be the first now."""
REFUSAL_SECONDS = 0.5
"""A refusal waits so long before it is sent, as callers may repeat it at once, in at most a part of the threads."""
_REFUSAL_PART = 4
_WEIGHT = 0.1
"""Of the last request in the mean time of a model's."""


@dataclass
class _Queue:
    """The requests of a model in this process. ``seconds`` is how long one takes, its wait apart, on average."""

    places: ModelPlaces | None = None
    waiting: deque[_Turn] = field(default_factory=deque)
    """Those that run and wait for another turn, then those that came for an answer soon, then batch's."""
    batch: int = 0
    """How many of those that wait are batch's."""
    running: int = 0
    turns: int = 0
    seconds: float = 0.0

    @property
    def first(self) -> float:
        """When the first that waits has come."""
        return self.waiting[0].came if self.waiting else 0.0

    def add(self, turn: _Turn) -> None:
        """Let a request wait."""
        if turn.began is not None:
            self.waiting.appendleft(turn)
        elif turn.batch:
            self.waiting.append(turn)
            self.batch += 1
        else:
            self.waiting.insert(len(self.waiting) - self.batch, turn)

    def remove(self, turn: _Turn) -> None:
        """Let a request wait no more."""
        self.waiting.remove(turn)
        self.batch -= turn.batch and turn.began is None


class Shares:
    """At most ``at_once`` requests have a turn; safe to use from several threads.

    With ``several`` models, one may have no more turns than are free. ``concurrency_of`` returns how many requests of a
    model may run in all processes that share ``places``; None means ``at_once`` in each. Without ``counts`` models have
    no places. With ``keeps_turns`` the user's code runs within turns. ``most`` requests may be here.
    """

    def __init__(
        self,
        at_once: int,
        places: Places | None = None,
        concurrency_of: Callable[[str], int | None] = lambda model: None,
        several: bool = False,
        counts: bool = True,
        keeps_turns: bool = False,
        most: int = 0,
    ) -> None:
        self.keeps_turns = keeps_turns
        self._at_once = self._free = at_once
        self._places = places
        self._concurrency_of = concurrency_of
        self._several = several
        self._counts = counts
        self._most = most
        self._pauses = threading.BoundedSemaphore(most // _REFUSAL_PART)
        self._present = 0
        """Requests that wait or have begun."""
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        self._queued: dict[int, _Queue] = {}
        """Those in which requests wait."""

    def enter(self, model: str | None, seconds: float, key: Key | None = None, batch: bool = False) -> Turn:
        """Return the place of a request with this much time left; its ``end`` must be called.

        ``model`` is "" for a request that names no known one, and None for one of Lightbox's own, which needs no place.
        Raises QueueFull for a model that has as many places as it may have, or whose queue takes longer, and
        RateLimited for a key that has as many requests as it may have. A ``batch`` request waits for all others of its
        model, and leaves them half of the process's places.
        """
        with self._lock:
            queue = self._queue(model)
            ahead = len(queue.waiting) * queue.seconds / max(1, queue.running)
            if ahead > max(0.0, seconds):
                if queue.places is not None:
                    queue.places.refuse()
                raise QueueFull(f"try again: requests of this model wait for {ahead:.0f} s, {seconds:.0f} s are left")
            if batch and 2 * self._present >= self._most:
                raise QueueFull(SHARE_FULL)
            of_key = self._of_key(key)
            if of_key is not None and not of_key.enter():
                raise RateLimited(KEY_FULL)
            if queue.places is not None and not queue.places.enter():
                if of_key is not None:
                    of_key.leave()
                raise QueueFull(SHARE_FULL)
            self._present += 1
        turn = _Turn(self, queue, of_key, batch)
        turn.model = model if self._several else None
        return turn

    def pause(self, seconds: float) -> None:
        """Let a refused request wait, no longer than the time that it has left; with many others it goes at once."""
        if self._pauses.acquire(blocking=False):
            try:
                time.sleep(max(0.0, min(REFUSAL_SECONDS, seconds)))
            finally:
                self._pauses.release()

    def _of_key(self, key: Key | None) -> ModelPlaces | None:
        if key is not None and self._places is not None:
            with suppress(OSError):  # a full disk does not fail a request
                return self._places.of_key(*key)
        return None

    def _queue(self, model: str | None) -> _Queue:
        name = "/" if model is None else model  # no model has such a name
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
        if self._places is not None and self._counts and model is not None:
            concurrency = self._concurrency_of(model)
            if queue.places is None or queue.places.concurrency != concurrency:
                with suppress(OSError):  # a full disk does not fail a request
                    queue.places = self._places.of(model, concurrency, not self._several)
        return queue

    def wait(self, turn: _Turn, seconds: float) -> bool:
        """Wait for a turn, that of a running request before others of its model. Return whether it came in time."""
        until, queue = time.monotonic() + seconds, turn.queue
        with self._lock:
            if turn.cancelled:
                return False
            if self._free and not self._queued and self._may_go(turn):
                self._go(turn)
                return True
            turn.woken = threading.Lock()
            turn.woken.acquire()
            queue.add(turn)
            self._queued[id(queue)] = queue
            self._grant()
        while not turn.woken.acquire(timeout=self._pause(turn, until)):
            with self._lock:
                if not turn.has and time.monotonic() >= until:
                    queue.remove(turn)
                    return False
                self._grant()
        return turn.has

    @staticmethod
    def _pause(turn: _Turn, until: float) -> float:
        """Return how long to wait before another look: other processes do not wake the first of a queue."""
        left, places = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX), turn.places
        if places is None or places.concurrency is None:
            return left
        waiting = turn.queue.waiting
        return min(left, _PAUSE_SECONDS if waiting and waiting[0] is turn else _LONG_PAUSE_SECONDS)

    def cancel(self, turn: _Turn) -> bool:
        """Let a request that waits for its first turn wait no more; return False if it has begun."""
        with self._lock:
            if turn.began is None and not turn.cancelled:
                turn.cancelled = True
                if turn in turn.queue.waiting:
                    turn.queue.remove(turn)
                    turn.woken.release()
            return turn.began is None

    def release(self, turn: _Turn) -> None:
        """Let the next request have the turn."""
        with self._lock:
            self._free_turn(turn)
            self._grant()

    def end(self, turn: _Turn) -> None:
        """Give back turn and place."""
        with self._lock:
            self._present -= 1
            self._free_turn(turn)
            queue, places = turn.queue, turn.places
            if turn.began is not None:
                queue.running -= 1
                took = time.monotonic() - turn.began
                queue.seconds += (took - queue.seconds) * (_WEIGHT if queue.seconds else 1.0)
                if places is not None:
                    places.end()
            for held in (places, turn.of_key):
                if held is not None:
                    held.leave()
            self._grant()

    def _free_turn(self, turn: _Turn) -> None:
        if turn.has:
            turn.has = False
            turn.queue.turns -= 1
            self._free += 1

    def _grant(self) -> None:
        """Give the free turns: to the model with the fewest, and to who waits longest of those."""
        while self._free and self._queued:
            for queue in sorted(self._queued.values(), key=lambda queue: (queue.turns, queue.first)):
                if not queue.waiting:
                    del self._queued[id(queue)]
                elif self._may_go(turn := queue.waiting[0]):
                    queue.remove(turn)
                    self._go(turn)
                    turn.woken.release()
                    break
            else:
                return

    def _may_go(self, turn: _Turn) -> bool:
        queue = turn.queue
        if self._several and queue.turns >= self._free:
            return False
        if turn.began is not None:
            return True
        if turn.places is not None and turn.places.concurrency is not None:
            return turn.places.begin()
        return queue.running < self._at_once and (turn.places is None or turn.places.begin())

    def _go(self, turn: _Turn) -> None:
        queue = turn.queue
        self._free -= 1
        queue.turns += 1
        if turn.began is None:
            queue.running += 1
            turn.began = time.monotonic()
        turn.has = True


class _Turn(Turn):
    """A request's turn, or its wait for one."""

    woken: threading.Lock
    """Free when a request that waits has its turn."""

    def __init__(self, shares: Shares, queue: _Queue, of_key: ModelPlaces | None, batch: bool) -> None:
        self.queue = queue
        self.places = queue.places
        self.of_key = of_key
        self.batch = batch
        self.came = time.monotonic()
        self.began: float | None = None
        self.has = False
        self.cancelled = False
        self._shares = shares

    @override
    def begin(self, seconds: float) -> bool:
        return self._shares.wait(self, seconds)

    @override
    def cancel(self) -> bool:
        return self._shares.cancel(self)

    @override
    def leave(self) -> None:
        if not self._shares.keeps_turns:
            self._shares.release(self)

    @override
    def take(self, seconds: float) -> None:
        if not self.has and not self._shares.wait(self, max(0.0, seconds)):
            raise DeadlineExceeded("the request's time passed before a thread was free after the user's code")

    @override
    def end(self) -> None:
        self._shares.end(self)
