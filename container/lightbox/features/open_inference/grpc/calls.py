"""The common parts of gRPC calls, as of HTTP requests: a context, an id, a worker thread and observers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from lightbox.base.errors import BadRequest, DeadlineExceeded, LightboxError, QueueFull, RateLimited, Unavailable
from lightbox.base.request_context import (
    Header,
    MakeContext,
    RequestContext,
    Requests,
    Turn,
    choose_request_id,
    is_batch,
    key_of,
)
from lightbox.base.telemetry.logs import FinishedRequest, Observer, OfRequest
from lightbox.core.edge import Work, as_lightbox_error
from lightbox.core.pauses import Pauses
from lightbox.core.shares import REFUSAL_SECONDS, Shares
from lightbox.features.open_inference.grpc.incoming import seconds_left


class Caller:
    """A caller's headers and deadline, and the time at which its message was complete."""

    def __init__(self, headers: Mapping[str, str], allowed_seconds: float, began: float) -> None:
        """``began`` is when its headers came, by ``time.perf_counter``: the caller's deadline starts there."""
        self.came = time.perf_counter()
        left = seconds_left(headers.get("grpc-timeout")) - (self.came - began)
        self.allowed_seconds = max(0.0, min(allowed_seconds, left))
        self._headers = headers
        self.request_id = choose_request_id(self.header)

    def header(self, name: str) -> str | None:
        """Return a metadata value by its HTTP header's name."""
        return self._headers.get(name.lower())

    @property
    def waited(self) -> float:
        """Seconds since its message was complete."""
        return time.perf_counter() - self.came


@dataclass(frozen=True)
class Outcome:
    """The result of a call: the serialized response or the error, and the context."""

    context: RequestContext
    data: bytes = b""
    error: LightboxError | None = None


class WorkerPool:
    """Answers calls in the turns of ``shares``; ``most`` may have a turn or wait, further ones are refused.

    Belongs to one event loop. ``patience`` is how many seconds past its deadline a running call may take: code that
    ignores its deadline cannot be stopped, but its caller gets a response. ``observers`` receive every call.
    ``model_of`` returns the model that a message and its headers name, "" for no known one.
    """

    def __init__(
        self,
        shares: Shares,
        most: int,
        patience: float = 10.0,
        observers: Sequence[Observer] = (),
        make_context: MakeContext | None = None,
        requests: Requests | None = None,
        model_of: Callable[[bytes, Header], str] | None = None,
    ) -> None:
        self._threads = ThreadPoolExecutor(most, "call")
        self._shares = shares
        self._most = most
        self._pauses = Pauses(REFUSAL_SECONDS)
        self._model_of = model_of
        self._patience = patience
        self.requests = requests or Requests()
        self._observers = observers
        self._make_context = make_context or (lambda allowed, header, waited: RequestContext(allowed, waited))

    async def answer(
        self, route: str, data: bytes, caller: Caller, work: Work, finished: Callable[[], object] = lambda: None
    ) -> Outcome:
        """Run ``work`` for a message in a thread, return the result; ``finished`` is called when no thread has it."""
        try:
            if self.requests.total >= self._most:
                raise QueueFull("try again: as many requests as are allowed are in progress and waiting")
            header = caller.header
            model = self._model_of(data, header) if self._model_of else ""
            turn = self._shares.enter(model, caller.allowed_seconds, key_of(header), is_batch(header))
        except (QueueFull, RateLimited, BadRequest) as refusal:
            size = len(data)
            del data
            finished()
            await self._pauses.wait()  # callers may repeat it at once
            return self._refused(route, size, caller, refusal.code, refusal)
        message, size, loop = [data], len(data), asyncio.get_running_loop()
        del data  # after a call is abandoned, only the thread's list holds it
        place = self._threads.submit(self._work, route, message, caller, work, turn)
        self.requests.enter()

        def leave() -> None:
            message.clear()
            self.requests.leave()
            finished()

        def tell_loop(_: Future[Outcome | None]) -> None:
            with suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(leave)

        place.add_done_callback(tell_loop)
        try:
            return await self._outcome(place, turn, caller) or self._too_late(route, size, caller)
        except asyncio.CancelledError:
            if turn.cancel():
                self._refused(route, size, caller, "hung_up", Unavailable("the caller has disconnected"))
            raise

    async def _outcome(self, place: Future[Outcome | None], turn: Turn, caller: Caller) -> Outcome | None:
        """Return the result of a call, None if its deadline passed in the queue."""
        future = asyncio.wrap_future(place)
        if not (await asyncio.wait((future,), timeout=caller.allowed_seconds))[0]:
            if turn.cancel():
                return None
            if not (await asyncio.wait((future,), timeout=self._patience))[0]:
                late = f"no answer came within {caller.allowed_seconds + self._patience:g} s"
                return Outcome(RequestContext(0), error=DeadlineExceeded(late))
        return future.result()

    def report_refused(self, route: str, caller: Caller, size: int, error: LightboxError) -> Outcome:
        """Report a call to the observers that ended after ``size`` bytes, before its message was complete."""
        return self._refused(route, size, caller, error.code, error)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    def _work(self, route: str, message: list[bytes], caller: Caller, work: Work, turn: Turn) -> Outcome | None:
        try:
            return self._begun(route, message, caller, work, turn) if turn.begin(math.inf) else None
        finally:
            turn.end()

    def _begun(self, route: str, message: list[bytes], caller: Caller, work: Work, turn: Turn) -> Outcome:
        data = message.pop()
        context = self._make_context(caller.allowed_seconds, caller.header, caller.waited)
        context.turn = turn
        context.note_caller(caller.header)
        with self.requests.progress(caller.request_id, context), OfRequest(caller.request_id):
            outcome = _done(work, data, caller, context)
            context.finish()
            code = outcome.error.code if outcome.error else None
            self._notify(_finished(route, len(data), caller, outcome, code))
        return outcome

    def _too_late(self, route: str, size: int, caller: Caller) -> Outcome:
        late = DeadlineExceeded(f"try again: the request waited {caller.waited:.1f} s for a thread and was not started")
        return self._refused(route, size, caller, "waited_too_long", late)

    def _refused(self, route: str, size: int, caller: Caller, why: str, error: LightboxError) -> Outcome:
        outcome = Outcome(RequestContext(0, caller.waited), error=error)
        outcome.context.finish()
        self._notify(_finished(route, size, caller, outcome, why))
        return outcome

    def _notify(self, finished: FinishedRequest) -> None:
        for observer in self._observers:
            observer.responded(finished)


def _done(work: Work, data: bytes, caller: Caller, context: RequestContext) -> Outcome:
    try:
        return Outcome(context, work(data, caller.header, context))
    except Exception as error:
        return Outcome(context, error=as_lightbox_error(error, caller.request_id))


def _finished(route: str, size: int, caller: Caller, outcome: Outcome, code: str | None) -> FinishedRequest:
    return FinishedRequest(
        request_id=caller.request_id,
        method="POST",  # gRPC's HTTP method
        path=route,
        route=route,
        status=outcome.error.status if outcome.error else 200,
        bytes_in=size,
        bytes_out=len(outcome.data),
        error_code=code,
        context=outcome.context,
    )
