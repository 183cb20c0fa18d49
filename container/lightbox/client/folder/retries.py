"""Sends one image until it is answered, or the allowed attempts are used up."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lightbox.client.folder.journal import Record
from lightbox.client.folder.senders import Answer, NoResponse, ResponseTimeout, Sender

BUSY = (429, 503)
"""Statuses that mean: try again later."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds between two attempts if the response has no Retry-After."""


@dataclass(frozen=True)
class Outcome:
    """The result of one image. ``refusals`` counts the responses that mean: try again later."""

    record: Record
    refusals: int = 0
    reached: bool = True
    """Whether the endpoint answered at all."""


@dataclass(frozen=True)
class Retrying:
    """Sends images at most ``attempts`` times each; after ``stopping`` is set it neither waits nor retries."""

    sender: Sender
    attempts: int
    stopping: threading.Event
    model: str = ""

    def predict(self, path: Path) -> Outcome:
        """Send the image in a file and return the result. An unreadable file fails without an attempt."""
        try:
            image = path.read_bytes()
        except OSError as error:
            return Outcome(self._record(path, 0, None, f"the file cannot be read: {error.strerror}"))
        answer: Answer | None = None
        failure, refusals, milliseconds, attempt = "", 0, 0.0, 0
        while attempt < self.attempts:
            attempt += 1
            started = time.perf_counter()
            try:
                answer, failure = self.sender.send(image), ""
            except NoResponse as error:
                answer, failure = None, f"no answer: {error}"
            except ResponseTimeout as error:
                answer, failure = None, str(error)
                break
            finally:
                milliseconds = (time.perf_counter() - started) * 1000
            if answer and answer.status not in BUSY:
                break
            refusals += answer is not None
            if attempt < self.attempts and self.stopping.wait(_pause(answer, attempt)):
                break
        record = self._record(path, len(image), answer, failure, ms=round(milliseconds, 1), attempts=attempt)
        return Outcome(record, refusals, reached=answer is not None)

    def _record(
        self, path: Path, size: int, answer: Answer | None, failure: str, ms: float = 0.0, attempts: int = 0
    ) -> Record:
        good = answer is not None and answer.status == 200
        return Record(
            path=str(path),
            status=answer.status if answer else None,
            response=answer.response if answer and good else None,
            error=None if good else (answer.error if answer else failure),
            ms=ms,
            attempts=attempts,
            request_id=answer.request_id if answer else "",
            bytes=size,
            model=self.model,
        )


def _pause(answer: Answer | None, attempt: int) -> float:
    """Return the seconds to wait, at least those of the response; jitter spreads images that were refused together."""
    asked = answer.retry_after if answer else None
    least = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE) if asked is None else asked
    return least * (1 + random.random() / 2)  # noqa: S311 - nothing secret
