"""Log lines of every process in one form, text or JSON, which no input can forge."""

from __future__ import annotations

import logging
import os
import select
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import orjson
from typing_extensions import override

from lightbox.base.control_characters import CONTROL, escape
from lightbox.base.error_texts import shorten
from lightbox.base.errors import HandlerFailed
from lightbox.base.machine.environment import variable
from lightbox.base.machine.shared_files import SharedCounters
from lightbox.base.request_context import MakeContext, RequestContext

DESCRIPTOR_VARIABLE = "LIGHTBOX_LOG_DESCRIPTOR"
"""Environment variable with the descriptor of the supervisor's relay (relay.py), for lines without a prefix."""

UNMATCHED = "unmatched"
"""The route of requests that match no rule."""
_PATH_LIMIT = 200
MOST_BYTES = 128 << 10
"""A longer record is written in pieces."""
WAIT_SECONDS = 1.0
"""How long a process waits for the supervisor to take its lines, before it drops lines until one is taken."""
LIMITED = b"\x01"
"""First byte of a message to the relay that counts against its limit: the lines of handlers and their libraries."""
_OWN_MESSAGE, _OWN_TRACEBACK, _LONGEST = 2000, 12_000, 60_000
"""Characters of our own records, which a request may cause, and of others' messages and tracebacks."""
_OWN_LOGGERS = ("lightbox", "gunicorn")


class _Form:
    as_json = False


def use_json(as_json: bool) -> None:
    """Choose the form of all further lines of this process."""
    _Form.as_json = as_json


def uses_json() -> bool:
    """Return whether lines are JSON objects."""
    return _Form.as_json


def line(process: str, message: str) -> str:
    """Return a line without its end: ``time [process] message``, or a JSON object of time, process and message."""
    if _Form.as_json:
        return json_line({"process": process, "message": message})
    return text_line(process, escape(message))


def text_line(process: str, message: str) -> str:
    """Return ``time [process] message`` for a message without control characters."""
    return f"{_now()} [{process}] {message}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def json_line(fields: Mapping[str, Any]) -> str:
    """Return a JSON object that begins with the time in UTC."""
    time = _now()
    try:
        text = orjson.dumps({"time": time, **fields}).decode()
    except TypeError:  # half of a surrogate pair is not text
        clean = {key: escape(value) if isinstance(value, str) else value for key, value in fields.items()}
        text = orjson.dumps({"time": time, **clean}).decode()
    # JSON allows some characters that end a line elsewhere, or that control terminals.
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Unwritten:
    lines = 0
    """Lines that this process could not write since it wrote the last one."""
    is_late = False
    """Whether its last write failed, so that the next one does not wait."""
    cut: ClassVar[set[int]] = set()
    """Descriptors whose last line has no end, as a part of it could not be written."""


def dropped(count: int) -> str:
    """Return the line about dropped lines, without its end."""
    return line("lightbox", f"{count} log lines were dropped, because they could not be written")


def write(data: bytes, descriptor: int, mark: bytes = b"") -> None:
    """Write whole lines, in one piece up to MOST_BYTES. Never raises, and waits at most WAIT_SECONDS for a descriptor
    that does not block.

    Lines that cannot be written are dropped, and counted in a later line. ``mark`` begins each piece.
    """
    unwritten, _Unwritten.lines = _Unwritten.lines, 0
    end = b"\n" if descriptor in _Unwritten.cut else b""
    written = 0
    try:
        if unwritten:  # lines are taken again now, or this one is dropped as well
            os.write(descriptor, end + f"{dropped(unwritten)}\n".encode())
            unwritten, end = 0, b""
            _Unwritten.cut.discard(descriptor)
        data = end + data
        while written < len(data):
            piece = data[written : written + MOST_BYTES - len(mark)]
            written += _write_soon(mark + piece, descriptor) - len(mark)
            _Unwritten.is_late = False
    except OSError:
        _Unwritten.is_late = True
        _Unwritten.lines += unwritten + data.count(b"\n", max(written, len(end)))
    if written:
        is_cut = written < len(data) and not data.endswith(b"\n", 0, written)
        (_Unwritten.cut.add if is_cut else _Unwritten.cut.discard)(descriptor)


def _write_soon(data: bytes, descriptor: int) -> int:
    """Write to a descriptor, wait if it is a full one that does not block; return the number of bytes written."""
    deadline = time.monotonic() if _Unwritten.is_late else None
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + WAIT_SECONDS
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            writable = select.poll()
            writable.register(descriptor, select.POLLOUT)
            writable.poll(remaining * 1000)


def log(text: str, process: str = "lightbox") -> None:
    """Log a process's output, one line for each of its lines; no other line comes in between."""
    with suppress(OSError):
        # Not print, which writes the end of a line separately.
        sys.stderr.write("".join(f"{line(process, part)}\n" for part in text.split("\n")))
        sys.stderr.flush()


def write_line(text: str, descriptor: int, mark: bytes = b"") -> None:
    """Write a record of one or more lines as a whole, so that records of several processes do not mix."""
    write(f"{text}\n".encode("utf-8", "replace"), descriptor, mark)


def worker_descriptor() -> int:
    """Return the descriptor for a worker's complete lines: the supervisor's, else stderr."""
    descriptor = int(variable(DESCRIPTOR_VARIABLE, "2"))
    with suppress(OSError):
        os.set_inheritable(descriptor, False)  # a handler's child processes must not keep it open
        return descriptor
    return 2


def log_like_others(level: str, as_json: bool, descriptor: int, process: str = "gunicorn") -> None:
    """Let the logging module of a worker write records in our form to ``descriptor``, including warnings and
    exceptions that end a thread."""
    use_json(as_json)
    handler = RecordHandler(descriptor, as_json, process)
    logging.basicConfig(level=level.upper(), handlers=[handler])
    sys.stdout, sys.stderr = _Printed(sys.stdout, handler), _Printed(sys.stderr, handler)
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread


_request = ContextVar("request", default="")


def current_request() -> str:
    """Return the id of the request that this thread, or the context that it runs in, works on; "" for none."""
    return _request.get()


class OfRequest:
    """Lets what this thread, and copies of its context, log and print in the block have the id of a request."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id

    def __enter__(self) -> None:
        """Begin the request."""
        self._token = _request.set(self._id)

    def __exit__(self, *_: object) -> None:
        """Write what the request has printed without an end of line."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Printed):
                stream.end()
        _request.reset(self._token)


class _Printed:
    """A worker's stdout or stderr: lines that are printed during a request have its id, others are as before."""

    def __init__(self, plain: Any, handler: RecordHandler) -> None:
        self._plain, self._handler = plain, handler
        self._own = threading.local()

    def write(self, text: str) -> int:
        """Write whole lines, and keep the beginning of the next one until its end or the request's."""
        if not current_request():
            return int(self._plain.write(text))
        *lines, self._own.rest = (getattr(self._own, "rest", "") + text).split("\n")
        for part in lines:
            self._handler.printed(part)
        if len(self._own.rest) > _LONGEST:
            self.end()
        return len(text)

    def end(self) -> None:
        """Write what has no end of line."""
        if rest := getattr(self._own, "rest", ""):
            self._own.rest = ""
            self._handler.printed(rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        name = ended.thread.name if ended.thread else "without a name"
        others = {"of_others": True}  # most likely a handler's
        logging.getLogger("lightbox").error("the thread %s has ended", name, exc_info=ended.exc_value, extra=others)


class TextFormatter(logging.Formatter):
    """``LEVEL:logger:message``; further lines, such as a traceback, begin with a bar, which records never do."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        message, raised = _texts(record)
        text = f"{record.levelname}:{record.name}:{escape(message.rstrip())}"
        request_id = current_request()
        if request_id and request_id not in message:
            text += f" request_id={request_id}"
        return text + "".join(f"\n  | {escape(part)}" for part in (raised.rstrip().split("\n") if raised else ()))


def _is_own(record: logging.LogRecord) -> bool:
    """Return whether we say it, and not a handler or a library."""
    failed = record.exc_info is not None and isinstance(record.exc_info[1], HandlerFailed)
    return record.name.partition(".")[0] in _OWN_LOGGERS and not failed and not hasattr(record, "of_others")


def _texts(record: logging.LogRecord) -> tuple[str, str]:
    """Return the message of a record and its traceback, "" for none: both may quote as much as a request holds."""
    has_raised = record.exc_info and record.exc_info[0]
    raised = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info and has_raised else ""
    message, longest = (_OWN_MESSAGE, _OWN_TRACEBACK) if _is_own(record) else (_LONGEST, _LONGEST)
    return shorten(record.getMessage(), message), shorten(raised, longest)


def _is_relay(descriptor: int) -> bool:
    with suppress(OSError):
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as found:
                return found.type == socket.SOCK_DGRAM
    return False


class RecordHandler(logging.Handler):
    """Writes each record with its traceback at once: a JSON object, or text whose lines begin with the process."""

    def __init__(self, descriptor: int, as_json: bool, process: str) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._as_json = as_json
        self._process = process
        self._mark = LIMITED if _is_relay(descriptor) else b""
        self._text = TextFormatter()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        mark = b"" if _is_own(record) else self._mark
        if self._as_json:
            write_line(self._json(record), self._descriptor, mark)
            return
        lines = self._text.format(record).split("\n")
        write_line("\n".join(text_line(self._process, part) for part in lines), self._descriptor, mark)

    def printed(self, text: str) -> None:
        """Write a line that user code has printed during a request."""
        fields = {"process": self._process, "message": shorten(text, _LONGEST), "request_id": current_request()}
        plain = f"{escape(fields['message'])} request_id={current_request()}"
        written = json_line(fields) if self._as_json else text_line(self._process, plain)
        write_line(written, self._descriptor, self._mark)

    @staticmethod
    def _json(record: logging.LogRecord) -> str:
        message, raised = _texts(record)
        fields = {"level": record.levelname.lower(), "logger": record.name, "message": message}
        if request_id := getattr(record, "request_id", current_request()):
            fields["request_id"] = request_id
        return json_line({"process": "worker", **fields, **({"traceback": raised} if raised else {})})


@dataclass(frozen=True)
class FinishedRequest:
    """A finished request, for observers. Sizes are in bytes."""

    request_id: str
    method: str
    path: str
    route: str
    status: int
    bytes_in: int
    bytes_out: int
    error_code: str | None
    context: RequestContext


class Observer(Protocol):
    """Is called for each answered request."""

    def responded(self, request: FinishedRequest) -> None:
        """Observe a request whose response is complete."""
        ...


@runtime_checkable
class MakesContexts(Protocol):
    """An observer that makes the contexts of requests."""

    context: MakeContext


def context_maker(observers: Iterable[Observer]) -> MakeContext | None:
    """Return the function of an observer that makes the contexts of requests, such as that of traces, or None."""
    return next((observer.context for observer in observers if isinstance(observer, MakesContexts)), None)


class RequestLog(Observer):
    """Writes each request's line to a descriptor, as text or JSON; ``process`` names the process."""

    def __init__(self, descriptor: int, as_json: bool, process: str = "worker") -> None:
        self._descriptor = descriptor
        self._as_json = as_json
        self._process = process

    @override
    def responded(self, request: FinishedRequest) -> None:
        write_line(request_line(request, self._as_json, self._process), self._descriptor)


def request_line(request: FinishedRequest, as_json: bool, process: str) -> str:
    """Return the line of a request, without its end."""
    fields, times = _fields(request), _times(request.context)
    if as_json:
        return json_line({"process": process, "message": "request", **fields, **times})
    texts = [f"{name}={value}".replace(" ", "%20") for name, value in fields.items()]
    texts += [f"{name}={value}" for name, value in times.items()]
    return text_line("request", escape(" ".join(texts)))


def _fields(request: FinishedRequest) -> dict[str, Any]:
    """Return the logged fields in order, without unknown ones."""
    context = request.context
    fields: dict[str, Any] = {"request_id": request.request_id, "method": request.method, "route": request.route}
    if request.route == UNMATCHED:
        fields["path"] = request.path[:_PATH_LIMIT]
    if context.model is not None:
        fields["model"] = context.model
    if context.transport is not None:
        fields["transport"] = context.transport
    fields |= context.noted
    fields |= {"status": request.status, "bytes_in": request.bytes_in, "bytes_out": request.bytes_out}
    if request.error_code is not None:
        fields["error"] = request.error_code
    return fields


def _times(context: RequestContext) -> dict[str, float]:
    """Return the milliseconds of each stage and in total."""
    return {f"{name}_ms": round(seconds * 1000, 3) for name, seconds in context.durations().items()}


FILE = "last_response"


class LastResponse(Observer):
    """Observes the time of the last successful prediction, on the monotonic clock that all processes share."""

    def __init__(self, run_dir: Path) -> None:
        self._row = SharedCounters(run_dir / FILE, "nanoseconds").row()

    @property
    def at(self) -> float:
        """Time of the last 200 of a model in any worker; 0 before the first one."""
        return float(self._row[0] / 1e9)

    @override
    def responded(self, request: FinishedRequest) -> None:
        if request.status == 200 and request.context.model is not None:
            self._row[0] = time.monotonic_ns()
