"""Predictions of an endpoint, with the concurrency that gives the highest rate."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import takewhile
from typing import Any

from lightbox.base.errors import DeadlineExceeded, LightboxError, Unavailable
from lightbox.tools.client.concurrency import MOST, Concurrency
from lightbox.tools.client.retries import Outcome, Retrying
from lightbox.tools.offline.rows import UNREACHED_AT_MOST, EndpointResponse, unwrapped

_VERSION = re.compile("[0-9]{1,18}")


class EndpointGone(Exception):
    """The endpoint no longer responds; the message gives the last error."""


class Endpoint:
    """Sends images to the model ``name`` of an endpoint, or to its default model for None."""

    version = engine = None
    reads = False

    def __init__(self, name: str | None, retrying: Retrying, concurrency: Concurrency) -> None:
        self.name = name
        self._retrying, self._concurrency = retrying, concurrency

    def responses(self, images: Iterable[tuple[str, bytes | Exception]]) -> Iterator[tuple[str, Any]]:
        """Yield path and response of each image, in the order of the responses.

        At a stop, images in progress without a response are left out. If the endpoint goes away, waits for those in
        progress, leaves out the images without a response, and raises EndpointGone.
        """
        gone: EndpointGone | None = None
        remaining = takewhile(lambda _: gone is None, images)
        unreached: list[tuple[str, EndpointResponse]] = []
        running: dict[Future[Outcome], str] = {}
        with ThreadPoolExecutor(MOST) as threads:
            try:
                while True:
                    while len(running) < self._concurrency.limit and (named := next(remaining, None)) is not None:
                        path, image = named
                        if isinstance(image, Exception):
                            yield path, image
                        else:
                            running[threads.submit(self._retrying.predict, image)] = path
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        path, outcome = running.pop(future), future.result()
                        self._concurrency.answered(time.monotonic(), outcome.refusals)
                        if outcome.is_given_up:
                            continue
                        response = (path, self._content(outcome))
                        if outcome.response is None:
                            unreached.append(response)
                            if gone is None and len(unreached) >= UNREACHED_AT_MOST:
                                gone = _gone(unreached)
                                self._retrying.stopping.set()
                        else:
                            yield from () if gone else unreached
                            yield response
                            unreached = []
            except BaseException:
                self._retrying.stopping.set()  # ends pauses between attempts
                raise
        if gone or any(isinstance(response.content, Unavailable) for _, response in unreached):
            raise gone or _gone(unreached)
        yield from unreached

    def _content(self, outcome: Outcome) -> EndpointResponse:
        response = outcome.response
        if response is None:
            failed = (DeadlineExceeded if outcome.is_late else Unavailable)(outcome.failure)
            return EndpointResponse(failed, self.name, None)
        model, _, version = response.answered_by.partition("/")
        content = unwrapped(response.response) if response.status == 200 else EndpointError(*response.failure())
        # A model that has a name keeps it, or the next run would refuse to go on.
        return EndpointResponse(
            content, self.name or model or None, int(version) if _VERSION.fullmatch(version) else None
        )


def _gone(unreached: list[tuple[str, EndpointResponse]]) -> EndpointGone:
    count, last = len(unreached), unreached[-1][1].content
    return EndpointGone(f"no response for {count} picture{'s'[: count > 1]} in a row; the last error: {last}")


class EndpointError(LightboxError):
    """An endpoint's error, with its code and sentence."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code
