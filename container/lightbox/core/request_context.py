"""The context of one request: its deadline, the time of its stages, its share of the memory, what logs and metrics
record of it; and the turns in which the requests of a process go.

A request takes its share of the memory before its body is read or parsed, as large as counting the body's structure
tells, and gives it back with the answer. A request that finds no memory is refused and does not wait: two requests that
wait would each hold what the other needs.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from lightbox.core.errors import DeadlineExceeded, TooLarge, Unavailable
from lightbox.machine.memory import find_trim

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Header = Callable[[str], str | None]
"""Looks a header of a request up by its name; None without it."""

QUEUE, OTHER, TOTAL = "queue", "other", "total"
STAGES = (
    QUEUE,
    "receive",
    "session",
    "load",
    "signature",
    "wait",
    "decode",
    "preprocess",
    "encode",
    "predict",
    "decode_response",
    "postprocess",
    "handler",
    OTHER,
)
"""The stages of a request, in the order in which they are told; docs/observability.md defines each."""

CALLER_HEADER = "X-Lightbox-Caller"
"""The name of the caller's key, for the log; nginx sets it, a caller's own never gets through."""
CREDENTIALS = ("Authorization", "X-API-Key", "Cookie")
"""Headers that tell who asks: what is asked on a caller's behalf has them too."""
LEAST_QUEUE_SECONDS = 0.002
"""nginx tells when it had a request in whole milliseconds, and reads the clock now and then: less says nothing."""


class _Stage:
    """See ``RequestContext.stage``. A request has a dozen of them, and a generator takes three times as long."""

    __slots__ = ("_entered", "_inside", "_name", "_open", "_stages", "_thread")

    def __init__(self, name: str, stages: dict[str, float], opened: list[_Stage]) -> None:
        self._name = name
        self._stages = stages
        self._open = opened
        self._thread = threading.get_ident()
        self._inside = 0.0

    def __enter__(self) -> None:
        if self._open and self._open[-1]._thread != self._thread:
            self._thread = 0  # a part of the other thread's
            return
        self._open.append(self)
        self._entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if not self._thread:
            return
        spent = time.perf_counter() - self._entered
        self._open.pop()
        self._stages[self._name] = self._stages.get(self._name, 0.0) + spent - self._inside
        if self._open:
            self._open[-1]._inside += spent


class RequestContext:
    """Begins with the request. Times are in seconds.

    ``model`` is noted as soon as it is known to exist, ``transport`` is the wire that has carried the last call of the
    model, ``version`` that which is asked, once it is chosen, ``images`` are (format, pixels) of each. ``fields`` are
    those of the form that the images came in, for errors.
    ``outgoing`` are headers for the call of the model server, ``memory`` is what the request may hold.

    ``noted`` are further fields of its line in the log, ``timings`` further entries of its ``Server-Timing``.

    ``waited`` is how long the request had waited before, for a thread to begin it: the stage "queue".
    """

    def __init__(self, allowed_seconds: float, waited: float = 0.0) -> None:
        self.started = time.perf_counter()
        self.allowed_seconds = allowed_seconds
        self.waited = waited
        self.stages: dict[str, float] = {}
        self.model: str | None = None
        self.version: int | None = None
        self.transport: str | None = None
        self.images: list[tuple[str, int]] = []
        self.fields: list[str] = []
        self.outgoing: dict[str, str] = {}
        self.memory = Share()
        self.noted: dict[str, str | float] = {}
        self.timings: list[str] = []
        # Both are shared with copies.
        self._open: list[_Stage] = []
        self._elapsed: list[float] = []

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Add the time spent inside to a stage, without that of stages inside it, so that no moment counts twice.

        What another thread does while a stage is open is a part of that stage.
        """
        return _Stage(name, self.stages, self._open)

    def finish(self) -> None:
        """Note that the response is there: from now on ``durations`` does not change."""
        self._elapsed[:] = [self.elapsed()]

    def durations(self) -> dict[str, float]:
        """Return the seconds of each stage in order, and their sum as "total": until ``finish``, else until now."""
        queue = self.waited if self.waited >= LEAST_QUEUE_SECONDS else 0.0
        total = queue + (self._elapsed[0] if self._elapsed else self.elapsed())
        stages = {QUEUE: queue, **self.stages} if queue else self.stages
        other = max(0.0, total - sum(stages.values()))
        return {name: stages[name] for name in STAGES if name in stages} | {OTHER: other, TOTAL: total}

    def elapsed(self) -> float:
        """Seconds since it was begun."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Seconds until the request must be answered; not above zero when that has passed."""
        return self.allowed_seconds - self.waited - self.elapsed()

    def limit(self, seconds: float) -> None:
        """Allow no more than ``seconds`` in all."""
        self.allowed_seconds = min(self.allowed_seconds, seconds)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Allow what is done inside no more than ``seconds`` from now."""
        allowed = self.allowed_seconds
        self.limit(self.waited + self.elapsed() + seconds)
        try:
            yield
        finally:
            self.allowed_seconds = allowed

    def check(self) -> None:
        """Raise DeadlineExceeded after the request's deadline; code that works in steps calls it between them."""
        if self.remaining() <= 0:
            raise DeadlineExceeded(f"the request's {self.allowed_seconds:g} s passed before its body was read")

    def poll(self, look: Callable[[], T | None], pause: float, seconds: float = math.inf) -> T | None:
        """Return the first thing but None that ``look`` returns, which is called with pauses.

        Returns None after ``seconds``, or when the request must be answered.
        """
        until = time.monotonic() + seconds
        while (found := look()) is None and min(until - time.monotonic(), self.remaining()) > pause:
            time.sleep(pause)
        return found

    def longer(self, seconds: float) -> RequestContext:
        """Return this context with ``seconds`` allowed, where that is more; it still began when this one did."""
        other = copy(self)
        other.allowed_seconds = max(seconds, self.allowed_seconds)
        return other

    @property
    def answered_by(self) -> str | None:
        """The model that answers, as name/version; the name alone where a handler asks the model by itself."""
        return self.model if None in (self.model, self.version) else f"{self.model}/{self.version}"

    def note(self, **fields: str | float) -> None:
        """Have the request's line in the log tell more of it."""
        self.noted |= fields

    def note_caller(self, header: Header) -> None:
        """Have its line tell the name of who asks, as nginx has it of who lets callers in; a look-up of headers."""
        if caller := header(CALLER_HEADER):
            self.note(caller=caller)


MakeContext = Callable[[float, Header, float], RequestContext]
"""Makes a request's context of the seconds it is allowed, a look-up of its headers, and the seconds it has waited."""


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


class Turns:
    """A semaphore that is fair: its waiters go in the order in which they came.

    ``threading.Semaphore`` lets a newcomer pass those that it has just woken, which then wait behind all others: under
    load a few requests take many times as long as most.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for a turn, ``timeout`` seconds at most. Return whether it came; ``release`` ends it."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=max(0.0, timeout)):
            return True
        with self._lock:
            if turn not in self._waiting:
                return True  # it came just now
            self._waiting.remove(turn)
            return False

    def release(self) -> None:
        """End a turn: it is the next one's, also before that has woken."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


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
