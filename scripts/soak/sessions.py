"""A client that keeps an image in a session and asks about it, while workers are killed around it."""

from __future__ import annotations

import json
import random

from soak.client import Client
from soak.exchange import Check, Fate, Outcome, Request
from soak.ledger import Ledger

HEADER = "X-Amzn-SageMaker-Session-Id"
ASKS = 10
"""How often a session is asked, on average, before it is closed."""


class SessionClient:
    """Opens a session, sends an image, asks about it, closes the session, and begins again.

    Sessions outlive workers: a request is answered whichever of them were killed. What was cut is asked again, but for
    the requests after which nobody knows how it stands with the session: then it begins with another one.
    """

    def __init__(self, caller: Client, image: Request, check: Check, ledger: Ledger, seed: int) -> None:
        """``image`` asks about an image without a session, ``check`` knows the answer to it."""
        self._caller = caller
        self._image = image
        self._check = check
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._session = ""
        self._kept = False

    def act(self) -> None:
        """Send the request that is next."""
        if not self._session:
            outcome = self._send("session, opened", "NEW_SESSION", _asking("NEW_SESSION"))
            if self._note(outcome, "" if outcome.status != 200 else _problem(outcome)):
                self._session = str(json.loads(outcome.body)["session"])
        elif not self._kept:
            outcome = self._send("session, image", self._session, self._image.body)
            self._kept = self._note(outcome, self._wrong(outcome))
        elif self._random.random() < 1 / ASKS:
            outcome = self._send("session, closed", self._session, _asking("CLOSE"))
            if outcome.fate is not Fate.ANSWERED or outcome.status == 200:
                self._session, self._kept = "", False
            self._note(outcome, "")
        else:
            outcome = self._send("session, asked", self._session)
            if not self._note(outcome, self._wrong(outcome)) and outcome.fate is not Fate.ANSWERED:
                outcome = self._send("session, asked", self._session)
                self._ledger.again(self._note(outcome, self._wrong(outcome)))

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def _send(self, name: str, session: str, body: bytes = b"") -> Outcome:
        content_type = "application/json" if body[:1] == b"{" else "application/x-image"
        headers = {**self._image.headers, HEADER: session, "Content-Type": content_type}
        return self._caller.send(Request(name, "/invocations", headers, body))

    def _wrong(self, outcome: Outcome) -> str:
        return self._check(outcome.body) if outcome.status == 200 else ""

    def _note(self, outcome: Outcome, wrong: str) -> bool:
        return self._ledger.good(outcome, wrong)


def _asking(request_type: str) -> bytes:
    return json.dumps({"requestType": request_type}).encode()


def _problem(outcome: Outcome) -> str:
    return "" if b'"session"' in outcome.body else f"no session: {outcome.body[:100]!r}"
