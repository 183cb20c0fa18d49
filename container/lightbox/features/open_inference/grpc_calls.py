"""What every gRPC call gets, as every HTTP request does: a context, an id, a worker thread and observers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lightbox.core.edge import Requests, Work, as_lightbox_error, choose_request_id
from lightbox.core.errors import DeadlineExceeded, LightboxError, Unavailable
from lightbox.core.request_context import MakeContext, RequestContext
from lightbox.telemetry.logs import UNMATCHED, FinishedRequest, Observer
from lightbox.telemetry.metrics import QUEUE_FULL


class Caller:
    """What a caller sent beside its message: its metadata, its deadline, and when it came."""

    def __init__(self, rpc: Any, allowed_seconds: float) -> None:
        left = rpc.time_remaining()
        self.allowed_seconds = allowed_seconds if left is None else min(allowed_seconds, left)
        self.came = time.perf_counter()
        self._metadata = {key: value for key, value in rpc.invocation_metadata() if isinstance(value, str)}
        self.request_id = choose_request_id(self.header)

    def header(self, name: str) -> str | None:
        """Return a metadata value, by its HTTP header's name."""
        return self._metadata.get(name.lower())

    @property
    def waited(self) -> float:
        """Seconds since it came."""
        return time.perf_counter() - self.came


@dataclass(frozen=True)
class Outcome:
    """What came of a call: the serialized answer or the error, and the context."""

    context: RequestContext
    data: bytes = b""
    error: LightboxError | None = None


class WorkerPool:
    """Answers calls on ``in_progress`` threads; ``waiting`` more may wait for one, others are turned away.

    Belongs to one event loop. ``patience`` is how many seconds past its deadline a call that runs may take: code that
    does not heed its deadline cannot be ended, but its caller gets an answer. ``observers`` hear of every call.
    ``most_bytes`` is what their messages may have together, those of callers who have hung up included. ``count`` hears
    of each that is let in.
    """

    def __init__(
        self,
        in_progress: int,
        waiting: int,
        patience: float = 10.0,
        observers: Sequence[Observer] = (),
        make_context: MakeContext | None = None,
        most_bytes: float = math.inf,
        requests: Requests | None = None,
    ) -> None:
        self._threads = ThreadPoolExecutor(in_progress, "call")
        self._most = in_progress + waiting
        self._patience = patience
        self._most_bytes = most_bytes
        self._bytes = 0
        self.requests = requests or Requests()
        self._observers = observers
        self._make_context = make_context or (lambda allowed, header, waited: RequestContext(allowed, waited))

    async def answer(self, route: str, data: bytes, caller: Caller, work: Work) -> Outcome:
        """Return what came of ``work`` for a message, done in a thread."""
        if self.requests.here >= self._most or self._bytes + len(data) > self._most_bytes:
            full = Unavailable("try again: as many requests as are allowed are in progress and waiting")
            return self._refused(route, data, caller, QUEUE_FULL, full)
        message, size, loop = [data], len(data), asyncio.get_running_loop()
        place = self._threads.submit(self._work, route, message, caller, work)
        self.requests.come()
        self._bytes += size

        def leave(_: Future[Outcome]) -> None:
            with suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(self._leave, message, size)

        place.add_done_callback(leave)
        try:
            return await self._outcome(place, caller) or self._too_late(route, data, caller)
        except asyncio.CancelledError:
            if place.cancel():
                self._refused(route, data, caller, "hung_up", Unavailable("the caller has hung up"))
            raise

    async def _outcome(self, place: Future[Outcome], caller: Caller) -> Outcome | None:
        """Return what a thread makes of a call, None when its time passed before one began with it."""
        future = asyncio.wrap_future(place)
        if not (await asyncio.wait((future,), timeout=caller.allowed_seconds))[0]:
            if place.cancel():
                return None
            if not (await asyncio.wait((future,), timeout=self._patience))[0]:
                late = f"no answer came within {caller.allowed_seconds + self._patience:g} s"
                return Outcome(RequestContext(0), error=DeadlineExceeded(late))
        return future.result()

    def report_refused(self, error: LightboxError, request_id: str, size: int) -> None:
        """Tell the observers of a call that was ended before it came here, after ``size`` bytes of its message."""
        self._tell(
            FinishedRequest(
                request_id=request_id,
                method="POST",
                path=UNMATCHED,  # it is in headers that were not read
                route=UNMATCHED,
                status=error.status,
                bytes_in=size,
                bytes_out=0,
                error_code=error.code,
                context=RequestContext(0),
            )
        )

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    def _leave(self, message: list[bytes], size: int) -> None:
        message.clear()  # of a call that was given up the pool keeps the arguments until a thread is free
        self.requests.leave()
        self._bytes -= size

    def _work(self, route: str, message: list[bytes], caller: Caller, work: Work) -> Outcome:
        data = message.pop()
        context = self._make_context(caller.allowed_seconds, caller.header, caller.waited)
        with self.requests.progress(caller.request_id, context):
            outcome = _done(work, data, caller, context)
            context.finish()
            code = outcome.error.code if outcome.error else None
            self._tell(_finished(route, data, caller, outcome, code))
        return outcome

    def _too_late(self, route: str, data: bytes, caller: Caller) -> Outcome:
        late = DeadlineExceeded(f"try again: the request waited {caller.waited:.1f} s for a thread and was not started")
        return self._refused(route, data, caller, "waited_too_long", late)

    def _refused(self, route: str, data: bytes, caller: Caller, why: str, error: LightboxError) -> Outcome:
        outcome = Outcome(RequestContext(0, caller.waited), error=error)
        outcome.context.finish()
        self._tell(_finished(route, data, caller, outcome, why))
        return outcome

    def _tell(self, finished: FinishedRequest) -> None:
        for observer in self._observers:
            observer.responded(finished)


def _done(work: Work, data: bytes, caller: Caller, context: RequestContext) -> Outcome:
    try:
        return Outcome(context, work(data, caller.header, context))
    except Exception as error:
        return Outcome(context, error=as_lightbox_error(error, caller.request_id))


def _finished(route: str, data: bytes, caller: Caller, outcome: Outcome, code: str | None) -> FinishedRequest:
    return FinishedRequest(
        request_id=caller.request_id,
        method="POST",  # what gRPC is on the wire
        path=route,
        route=route,
        status=outcome.error.status if outcome.error else 200,
        bytes_in=len(data),
        bytes_out=len(outcome.data),
        error_code=code,
        context=outcome.context,
    )
