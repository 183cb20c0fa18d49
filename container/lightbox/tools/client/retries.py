"""One image sent until it is answered, or until it has been sent as often as is allowed."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass

from lightbox.tools.client.http import NoResponse, ResponseTimeout
from lightbox.tools.client.senders import Misconfigured, Response, Sender

BUSY = (429, 503)
"""Statuses that say: try again later."""
BAD_RESPONSE = "bad_answer"
"""The code of a response that cannot be used."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds between two attempts where the response does not say how many."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one image: a response, or why there is none. ``refusals`` count the responses: try later."""

    response: Response | None
    failure: str = ""
    refusals: int = 0
    is_late: bool = False
    """Whether no response came in time."""
    is_given_up: bool = False
    """Whether a stop ended the attempts."""


@dataclass(frozen=True)
class Retrying:
    """Sends images at most ``attempts`` times each; once ``stopping`` is set it waits and retries no more."""

    sender: Sender
    attempts: int
    stopping: threading.Event

    def predict(self, image: bytes) -> Outcome:
        """Send an image and say what came of it."""
        refusals = 0
        for attempt in range(1, self.attempts + 1):
            response, failure = None, ""
            try:
                response = self.sender.send(image)
            except NoResponse as error:
                failure = f"no answer: {error}"
            except ResponseTimeout as error:
                return Outcome(None, str(error), refusals, is_late=True)
            except Misconfigured:
                raise
            except Exception as error:  # whatever an endpoint sends costs its own image only
                return Outcome(_bad(error), "", refusals)
            if response and response.status not in BUSY:
                return Outcome(response, "", refusals)
            refusals += response is not None
            if attempt < self.attempts and self.stopping.wait(_pause(response, attempt)):
                return Outcome(response, failure, refusals, is_given_up=True)
        return Outcome(response, failure, refusals)


def _bad(error: Exception) -> Response:
    """Return a response in place of one that cannot be used."""
    return Response(502, json.dumps({"code": BAD_RESPONSE, "error": str(error) or type(error).__name__}).encode())


def _pause(response: Response | None, attempt: int) -> float:
    """Return seconds to wait, at least those of the response; images refused together do not come back together."""
    asked = response.retry_after if response else None
    least = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE) if asked is None else asked
    return least * (1 + random.random() / 2)  # noqa: S311 - nothing secret
