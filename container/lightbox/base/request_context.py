"""The context of one request: its deadline, the time of its stages, its share of the memory, what logs and metrics
record of it; and the requests of a process: their ids, their number, and the turns in which they go.

A request reserves its share of the memory before its body is read or parsed, estimated from the body's structure,
and releases it with the response. A request that gets no memory is refused at once: two waiting requests could hold
what the other one needs.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from lightbox.base.errors import BadRequest, DeadlineExceeded, TooLarge, Unavailable
from lightbox.base.machine.memory import find_trim

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Header = Callable[[str], str | None]
"""Looks up a header of a request by its name; None if absent."""

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
"""The stages of a request, in the order of Server-Timing; docs/observability.md defines each."""

CALLER_HEADER = "X-Lightbox-Caller"
"""The name of the caller's key, for the log. nginx sets it and drops a caller's own."""
AT_ONCE_HEADER = "X-Lightbox-At-Once"
"""How many requests the caller's key may have at once. nginx sets it and drops a caller's own."""
PRIORITY_HEADER, BATCH, INTERACTIVE = "X-Lightbox-Priority", "batch", "interactive"
"""A caller's choice of a request's priority, and its values; a batch request waits for all interactive ones."""
Key = tuple[str, int]
"""The name of a caller's key, and how many requests it may have at once."""
CREDENTIALS = ("Authorization", "X-API-Key", "Cookie")
"""Headers with the caller's identity; calls on the caller's behalf pass them on."""
REQUEST_ID_HEADER = "X-Amzn-RequestId"
# The last one is boto3's InferenceId. It appears in the log, in errors and in boto3's ResponseMetadata.
REQUEST_ID_HEADERS = (REQUEST_ID_HEADER, "X-Request-Id", "X-Amzn-SageMaker-Inference-Id")
"""Headers in which a caller may send a request id, in order of precedence."""
REQUEST_ID_PATTERN = "[A-Za-z0-9._:/+=-]{1,128}"
"""The allowed form of a caller's id, as a regular expression that Python and nginx share. Other ids are replaced."""
LEAST_QUEUE_SECONDS = 0.002
"""nginx reports the time of arrival in milliseconds from a cached clock: smaller values are noise."""

_REQUEST_ID = re.compile(REQUEST_ID_PATTERN)

_KEY, _AT_ONCE = re.compile("[A-Za-z0-9._-]{1,64}"), re.compile("[0-9]{1,6}")

log = logging.getLogger("lightbox")


def choose_request_id(header: Header) -> str:
    """Return the caller's id if it has the allowed form, else a new one; ``header`` looks up a header."""
    for name in REQUEST_ID_HEADERS:
        given = header(name)
        if given and _REQUEST_ID.fullmatch(given):
            return given
    return uuid.uuid4().hex


def key_of(header: Header) -> Key | None:
    """Return the caller's key as nginx describes it, None without a limit."""
    name = header(CALLER_HEADER)
    if not name:
        return None
    at_once = header(AT_ONCE_HEADER) or ""
    return (name, int(at_once)) if _KEY.fullmatch(name) and _AT_ONCE.fullmatch(at_once) else None


def is_batch(header: Header) -> bool:
    """Return whether a request has the lower priority. Raises BadRequest."""
    given = header(PRIORITY_HEADER)
    if given not in (None, "", BATCH, INTERACTIVE):
        raise BadRequest(f"{PRIORITY_HEADER}: expected {BATCH} or {INTERACTIVE}, got {given!r}")
    return given == BATCH


class _Stage:
    """See ``RequestContext.stage``. A class, as a generator takes three times as long and a request has a dozen."""

    __slots__ = ("_entered", "_inside", "_name", "_open", "_outer", "_stages", "_thread")

    def __init__(self, name: str, stages: dict[str, float], opened: list[_Stage | None]) -> None:
        self._name = name
        self._stages = stages
        self._open = opened
        self._thread = threading.get_ident()
        self._inside = 0.0

    def __enter__(self) -> None:
        self._outer = self._open[0]
        if self._outer is not None and self._outer._thread != self._thread:
            self._thread = 0  # the time counts for the other thread
            return
        self._open[0] = self
        self._entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if not self._thread:
            return
        spent, outer = time.perf_counter() - self._entered, self._outer
        self._open[0] = outer
        if self._name not in self._stages:
            self._stages[self._name] = 0.0
        self._stages[self._name] += spent - self._inside
        if outer is not None:
            outer._inside += spent


class Turn:
    """A request's turn among those of its process; this one is of a request that needs none."""

    model: str | None = None
    """Whose share the request belongs to, if there are several."""

    def begin(self, seconds: float) -> bool:
        """Wait for the turn; return whether it came within these seconds, before ``cancel``."""
        return True

    def cancel(self) -> bool:
        """Let a request that waits wait no more; return False if it has begun."""
        return False

    def leave(self) -> None:
        """Let others have the turn, as the user's code may wait."""

    def take(self, seconds: float) -> None:
        """Have the turn again. Raises DeadlineExceeded if it does not come within these seconds."""

    def end(self) -> None:
        """End the request's turn and its place in the queue."""


class RequestContext:
    """Begins with the request. Times are in seconds.

    ``model`` is set as soon as the model is known to exist, ``version`` once it is chosen, ``transport`` by the last
    model call. ``images`` are the (format, pixels) of each image; ``fields`` are their form fields, for errors,
    ``file_names`` the names of their files in a form. With ``keeps_picture`` the response needs the decoded image.
    ``outgoing`` are headers for the call of the model server, ``memory`` is the request's share.

    ``noted`` are further fields of the log line, ``timings`` further entries of ``Server-Timing``.

    ``waited`` is the time in the queue before a thread was free: the stage "queue". ``turn`` is the request's.
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
        self.file_names: list[str] = []
        self.keeps_picture = False
        self.outgoing: dict[str, str] = {}
        self.memory = Share()
        self.turn = Turn()
        self.noted: dict[str, str | float] = {}
        self.timings: list[str] = []
        self.image_memory = ExitStack()
        """The memory of images while they are decoded and resized."""
        # Both are shared with copies.
        self._open: list[_Stage | None] = [None]
        """The innermost open stage."""
        self._finished: dict[str, float] = {}

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Add the time inside the block to a stage. Nested stages are subtracted, so no moment counts twice.

        Work of another thread inside an open stage counts for that stage.
        """
        return _Stage(name, self.stages, self._open)

    def finish(self) -> None:
        """Mark the response as complete: ``durations`` does not change any more."""
        self._finished.clear()
        self._finished |= self.durations()

    def durations(self) -> Mapping[str, float]:
        """Return the seconds of each stage in order, and their sum as "total", up to ``finish`` or until now."""
        if self._finished:
            return self._finished
        queue = self.waited if self.waited >= LEAST_QUEUE_SECONDS else 0.0
        total = queue + self.elapsed()
        stages = {QUEUE: queue, **self.stages} if queue else self.stages
        other = max(0.0, total - sum(stages.values()))
        return {name: stages[name] for name in STAGES if name in stages} | {OTHER: other, TOTAL: total}

    def server_timing(self) -> str:
        """Return the header Server-Timing: milliseconds of each stage and in total, and the transport."""
        parts = [f"{name};dur={seconds * 1000:.3f}" for name, seconds in self.durations().items()]
        parts += self.timings
        return ", ".join([*parts, f'wire;desc="{self.transport}"'] if self.transport else parts)

    def elapsed(self) -> float:
        """Seconds since the request began."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Seconds until the deadline; zero or less when it has passed."""
        return self.allowed_seconds - self.waited - self.elapsed()

    def time_left(self) -> float:
        """Return the seconds that remain for a call; raise DeadlineExceeded if there are none."""
        remaining = self.remaining()
        if remaining <= 0:
            raise DeadlineExceeded(f"the request's {self.allowed_seconds:g} s passed before it was sent")
        return remaining

    def limit(self, seconds: float) -> None:
        """Lower the time limit to ``seconds`` in all."""
        self.allowed_seconds = min(self.allowed_seconds, seconds)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the block to ``seconds`` from now."""
        allowed = self.allowed_seconds
        self.limit(self.waited + self.elapsed() + seconds)
        try:
            yield
        finally:
            self.allowed_seconds = allowed

    def check(self, what: str = "its body") -> None:
        """Raise DeadlineExceeded after the request's deadline; code in steps calls it between them."""
        if self.remaining() <= 0:
            raise DeadlineExceeded(f"the request's {self.allowed_seconds:g} s passed before {what} was read")

    def poll(self, look: Callable[[], T | None], pause: float, seconds: float = math.inf) -> T | None:
        """Call ``look`` with pauses until it returns a value other than None, and return that.

        Returns None after ``seconds``, or at the request's deadline.
        """
        until = time.monotonic() + seconds
        while (found := look()) is None and min(until - time.monotonic(), self.remaining()) > pause:
            time.sleep(pause)
        return found

    @contextmanager
    def users_code(self, name: str, is_last: bool = False) -> Iterator[None]:
        """Add the time inside the block to a stage; others have the turn meanwhile, and also later if it ``is_last``.

        Raises DeadlineExceeded if the turn does not come again in time.
        """
        self.turn.leave()
        with self.stage(name):
            yield
        if not is_last:
            self.turn.take(self.remaining())

    def longer(self, seconds: float) -> RequestContext:
        """Return this context with a time limit of at least ``seconds``, counted from the same beginning."""
        other = copy(self)
        other.allowed_seconds = max(seconds, self.allowed_seconds)
        return other

    @property
    def answered_by(self) -> str | None:
        """The answering model as name/version; the name alone if a handler calls the model by itself."""
        return self.model if None in (self.model, self.version) else f"{self.model}/{self.version}"

    def note(self, **fields: str | float) -> None:
        """Add fields to the request's log line."""
        self.noted |= fields

    def note_caller(self, header: Header) -> None:
        """Add the caller's name to the log line, which nginx sends in a header."""
        if caller := header(CALLER_HEADER):
            self.note(caller=caller)


MakeContext = Callable[[float, Header, float], RequestContext]
"""Makes a context from the time limit in seconds, a header lookup, and the seconds in the queue."""
Change = Callable[[int, int], None]
"""Receives the number of requests of a process, waiting or in progress, and the number in progress."""


class Requests:
    """The requests of one process: those in the queue, and those in progress with their contexts.

    ``on_change`` receives every change. A request in progress is overdue ``answered_after`` seconds after its arrival,
    when nginx has answered it with 504. Python cannot end a thread, so a loop in user code runs on. The log reports
    each overdue request once, and a stop does not wait for it.
    """

    def __init__(self, answered_after: float = math.inf, on_change: Change | None = None) -> None:
        self.total = 0
        """The number of requests, waiting or in progress."""
        self._answered_after = answered_after
        self._on_change = on_change or (lambda total, in_progress: None)
        self._lock = threading.Lock()
        self._in_progress: dict[str, RequestContext] = {}
        self._overdue: set[str] = set()

    def enter(self) -> None:
        """Add a request to the count."""
        self._change(1)

    def leave(self) -> None:
        """Remove a request from the count."""
        self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self.total += by
            self._on_change(self.total, len(self._in_progress))

    def progress(self, request_id: str, context: RequestContext) -> AbstractContextManager[None]:
        """Count a request as in progress inside the block; several requests may have the same id."""
        return _Progress(self, request_id, context)

    def begin(self, key: str, context: RequestContext) -> None:
        """Count a request as in progress."""
        with self._lock:
            self._in_progress[key] = context
            self._on_change(self.total, len(self._in_progress))

    def end(self, key: str) -> None:
        """Count a request as in progress no more."""
        with self._lock:
            context = self._in_progress.pop(key)
            self._on_change(self.total, len(self._in_progress))
            if key in self._overdue:
                self._overdue.discard(key)
                log.warning("request %s: ended %.0f s after its arrival", key.split(maxsplit=1)[0], _age(context))

    def is_alone(self) -> bool:
        """Return whether at most one request is in progress."""
        return len(self._in_progress) <= 1

    def overdue(self) -> int:
        """Return the number of overdue requests; log those that are new."""
        with self._lock:
            ages = {key: _age(context) for key, context in self._in_progress.items()}
            late = {key: age for key, age in ages.items() if age > self._answered_after}
            new = late.keys() - self._overdue
            self._overdue |= new
        for key in new:
            log.warning(
                "request %s: still in progress %.0f s after its arrival, answered with 504 after %.0f s",
                key.split()[0],
                late[key],
                self._answered_after,
            )
        return len(late)


class _Progress(AbstractContextManager[None]):
    """See ``Requests.progress``."""

    def __init__(self, requests: Requests, request_id: str, context: RequestContext) -> None:
        self._requests = requests
        self._key = f"{request_id} {id(context)}"
        self._context = context

    @override
    def __enter__(self) -> None:
        self._requests.begin(self._key, self._context)

    @override
    def __exit__(self, *_: object) -> None:
        self._requests.end(self._key)


def _age(context: RequestContext) -> float:
    return context.waited + context.elapsed()


SETTING = "LIGHTBOX_REQUEST_MEMORY_MB"
MOST_PER_BYTE = 12
"""Bytes of memory allowed for each byte of the request, after decompression."""
SMALL = 32 << 20
"""Bytes of memory that every request may take."""


_LARGE = 16 << 20
"""After a request of at least this size the C library returns free memory; that takes milliseconds."""
_trim = find_trim()
STRING_BYTES = 64
"""Bytes of a short text as a tensor element."""


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
        """Wait for a turn, ``timeout`` seconds at most, or for ever. Return whether it came; ``release`` ends it."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            if turn.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX)):
                return True
        except BaseException:  # Ctrl-C, where a model is loaded into a process
            if not self._leave(turn):
                self.release()
            raise
        return not self._leave(turn)

    def _leave(self, turn: threading.Lock) -> bool:
        """Wait no more. Return False if the turn came just now."""
        with self._lock:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True

    def release(self) -> None:
        """End a turn: it is the next one's, also before that has woken."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class MemoryBudget:
    """The bytes that all requests of one process may hold together; safe to use from several threads.

    Several requests of a model may hold no more than are free, as they may wait in the user's code.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._held = 0
        self._of_models: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Bytes that all shares hold now."""
        return self._held

    def share(self, model: str | None = None) -> Share:
        """Return a share for one request, of a model if there are others; as a block, it is released at the end."""
        return Share(self, model)

    def change(self, by: int, own: int = 0, model: str | None = None) -> bool:
        """Reserve or release bytes of a request that holds ``own``; return whether they were available."""
        with self._lock:
            if by > 0 and self._held + by > self.size:
                return False
            if model is not None:
                held = self._of_models[model]
                if held > own and held + by > self.size - self._held - by and by > 0:
                    return False
                self._of_models[model] += by
                if not self._of_models[model]:
                    del self._of_models[model]
            self._held += by
            return True


class Share:
    """The bytes that one request holds, and ``most``, the largest number that it has held.

    ``weight`` is the size of the request, or of the tensors that it became. ``image_memory`` is that of images
    which it keeps until its end.
    """

    def __init__(self, budget: MemoryBudget | None = None, model: str | None = None) -> None:
        self._budget = budget
        self._model = model
        self._held = 0
        self.most = 0
        self.weight = 0
        self.image_memory = ExitStack()

    def __enter__(self) -> Share:
        """Begin the request."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the memory."""
        self.image_memory.close()
        self.hold(0)
        if self.most >= _LARGE:
            _trim()

    def weigh(self, size: int) -> None:
        """Raise the request's weight to at least ``size`` bytes."""
        self.weight = max(self.weight, size)

    def hold_tensors(self, body: int, tensors: Iterable[NDArray[Any]]) -> None:
        """Hold a body of this size, its tensors, and two copies of the tensors, in the message and in gRPC.

        Raises as ``hold``. Tensors count with their own size: a model may take eight bytes for each byte of the body.
        """
        size = sum(
            array.nbytes + (STRING_BYTES * array.size + body if array.dtype.hasobject else 0) for array in tensors
        )
        self.weigh(size)
        self.hold(body + 3 * size, "the tensors")

    def hold(self, size: int, what: str = "the body") -> None:
        """Hold ``size`` bytes in all from now on.

        Raises TooLarge for more than MOST_PER_BYTE times the weight or more than the budget, and Unavailable for
        more than other requests leave; then nothing changes.
        """
        if size > max(SMALL, MOST_PER_BYTE * self.weight):
            raise TooLarge(
                f"{what}: reading {self.weight} bytes of many small values takes {size >> 20} MiB of memory, "
                f"more than {MOST_PER_BYTE} bytes for each; send a list of numbers, application/x-npy, raw tensors, or "
                "fewer at once"
            )
        if self._budget is None:
            return
        if size > self._budget.size:
            raise TooLarge(
                f"{what}: it takes {size >> 20} MiB of memory, and the requests of a process together get "
                f"{self._budget.size >> 20} MiB ({SETTING})"
            )
        if not self._budget.change(size - self._held, self._held, self._model):
            raise Unavailable(
                f"try again: {what} takes {size >> 20} MiB of memory, which other requests hold ({SETTING})"
            )
        self._held, self.most = size, max(size, self.most)
