"""Requests that nginx answered itself: no worker knows of them, so their log lines and counts are made here."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import orjson

from lightbox.telemetry.clock import RequestClock
from lightbox.telemetry.request_log import UNMATCHED, FinishedRequest, Observer

_DIGITS = re.compile("[0-9]{1,18}")  # a caller's own Content-Length, which may be why it was refused


class RefusedRequests:
    """Logs and counts each."""

    def __init__(self, log: Observer) -> None:
        self._log = log
        self.reasons: Counter[str] = Counter()
        """How many there were of each error code, for ``/metrics``."""

    def answered(self, told: str) -> None:
        """Log and count a request by what nginx tells of it, JSON as nginx.conf has it."""
        fields = orjson.loads(told)
        self.reasons[fields["code"]] += 1
        self._log.finished(_read(fields))


def _read(told: dict[str, Any]) -> FinishedRequest:
    # The first line as it came: where it is no HTTP, it has neither method nor path.
    method, _, rest = told["request"].partition(" ")
    well_formed = method.isascii() and method.isalpha() and rest.startswith("/")
    clock = RequestClock(0)
    clock.started -= told["seconds"]
    return FinishedRequest(
        request_id=told["request_id"],
        method=method if well_formed else "-",
        path=rest.partition(" ")[0].partition("?")[0] if well_formed else "-",
        route=UNMATCHED,
        status=int(told["status"]),
        bytes_in=int(told["bytes_in"]) if _DIGITS.fullmatch(told["bytes_in"]) else 0,
        bytes_out=told["bytes_out"],
        error_code=told["code"],
        clock=clock,
    )
