"""The context of one request: its deadline, the time of its stages, and what logs and metrics record of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

from lightbox.core.errors import DeadlineExceeded
from lightbox.core.memory import Share

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

LEAST_QUEUE_SECONDS = 0.002
"""nginx tells when it had a request in whole milliseconds, and reads the clock now and then: less says nothing."""


class RequestContext:
    """Begins with the request. Times are in seconds.

    ``model`` is noted as soon as it is known to exist, ``transport`` is the wire that has carried the last call of the
    model, ``version`` that of the model which has answered it, ``images`` are (format, pixels) of each. ``fields`` are
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
        # Both are shared with copies: of each stage that is open its thread, and the seconds of stages inside it.
        self._open: list[tuple[int, list[float]]] = []
        self._elapsed: list[float] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage, without that of stages inside it, so that no moment counts twice.

        What another thread does while a stage is open is a part of that stage.
        """
        thread = threading.get_ident()
        if any(owner != thread for owner, _ in self._open[-1:]):
            yield
            return
        entered, inside = time.perf_counter(), [0.0]
        self._open.append((thread, inside))
        try:
            yield
        finally:
            self._open.pop()
            spent = time.perf_counter() - entered
            self.stages[name] = self.stages.get(name, 0.0) + spent - inside[0]
            if self._open:
                self._open[-1][1][0] += spent

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


MakeContext = Callable[[float, Callable[[str], str | None], float], RequestContext]
"""Makes a request's context of the seconds it is allowed, a look-up of its headers, and the seconds it has waited."""
