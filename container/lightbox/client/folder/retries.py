"""One image sent until it is answered, or until it has been sent as often as is allowed."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lightbox.client.folder.journal import Record
from lightbox.client.folder.senders import Answer, NoResponse, ResponseTimeout, Sender

BUSY = (429, 503)
"""Statuses that say: try again later."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds between two attempts where the answer does not say how many."""


@dataclass(frozen=True)
class Outcome:
    """What came of one image. ``refusals`` counts the answers that said: try again later."""

    record: Record
    refusals: int = 0
    reached: bool = True
    """Whether the endpoint answered at all."""


@dataclass(frozen=True)
class Retrying:
    """Sends images at most ``attempts`` times each; once ``stopping`` is set it waits and retries no more."""

    sender: Sender
    attempts: int
    stopping: threading.Event
    model: str = ""

    def predict(self, path: Path) -> Outcome:
        """Send the image in a file and say what came of it. What cannot be read is a failure without an attempt."""
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
    """Return seconds to wait, at least what the answer asks for; images refused together do not come back together."""
    asked = answer.retry_after if answer else None
    least = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE) if asked is None else asked
    return least * (1 + random.random() / 2)  # noqa: S311 - nothing secret
