"""One line for each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from lightbox.telemetry.clock import STAGES, RequestClock
from lightbox.telemetry.log_lines import escape, json_line, write_line

UNMATCHED = "unmatched"
"""The route of requests that no rule fits."""
_PATH_LIMIT = 200


@dataclass(frozen=True)
class FinishedRequest:
    """What is known of a request when its answer is complete. Sizes are in bytes."""

    request_id: str
    method: str
    path: str
    route: str
    status: int
    bytes_in: int
    bytes_out: int
    error_code: str | None
    clock: RequestClock


class Observer(Protocol):
    """Hears of every request."""

    def started(self) -> None:
        """Hear that a request has come."""
        ...

    def finished(self, request: FinishedRequest) -> None:
        """Hear of a request whose answer is complete."""
        ...

    def ended(self) -> None:
        """Hear that a request is over, whether it was finished or not."""
        ...


class RequestLog:
    """Writes the line of each request to a descriptor, as text or JSON; ``process`` is who answered it."""

    def __init__(self, descriptor: int, as_json: bool, process: str = "worker") -> None:
        self._descriptor = descriptor
        self._as_json = as_json
        self._process = process

    def started(self) -> None:
        """See Observer."""

    def ended(self) -> None:
        """See Observer."""

    def finished(self, request: FinishedRequest) -> None:
        """Log a request."""
        write_line(request_line(request, self._as_json, self._process), self._descriptor)


def request_line(request: FinishedRequest, as_json: bool, process: str) -> str:
    """Return the line of a request, without its end."""
    fields = _fields(request) | _times(request.clock)
    if as_json:
        return json_line({"process": process, "message": "request", **fields})
    return escape("[request] " + " ".join(f"{name}={_plain(value)}" for name, value in fields.items()))


def _fields(request: FinishedRequest) -> dict[str, Any]:
    """Return what is logged, in its order; what is not known of a request is left out."""
    clock = request.clock
    fields: dict[str, Any] = {"request_id": request.request_id, "method": request.method, "route": request.route}
    if request.route == UNMATCHED:
        fields["path"] = request.path[:_PATH_LIMIT]
    if clock.model is not None:
        fields["model"] = clock.model
    if clock.transport is not None:
        fields["transport"] = clock.transport
    fields |= {"status": request.status, "bytes_in": request.bytes_in, "bytes_out": request.bytes_out}
    if request.error_code is not None:
        fields["error"] = request.error_code
    return fields


def _times(clock: RequestClock) -> dict[str, float]:
    """Return the milliseconds of each stage and of the whole."""
    stages = clock.stages
    times = {f"{name}_ms": round(stages[name] * 1000, 3) for name in STAGES if name in stages}
    times["total_ms"] = round(clock.elapsed() * 1000, 3)
    return times


def _plain(value: Any) -> str:
    """Return a value that a space inside cannot make two of."""
    return value.replace(" ", "%20") if isinstance(value, str) else str(value)
