"""The traffic of a stack whose models are there from the start: every way in, and hostile clients beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmark.servers import Running, Stack
from soak import good
from soak.client import Client, Fate, Request
from soak.good import Check
from soak.hostile import BODY_LIMIT_MB, Hostile
from soak.ledger import Ledger
from soak.run import Actor, Traffic
from soak.stack import KINDS, Settings

GOOD_CLIENTS, HOSTILE_CLIENTS, SESSION_CLIENTS = 6, 4, 2
SESSION = "X-Amzn-SageMaker-Session-Id"
ASKS = 10
"""How often a session is asked, on average, before it is closed."""


def fixed_models(models: Path, model_server: Settings) -> Traffic:
    """Return the traffic to models that stay."""
    settings = (
        *model_server,
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2"),
        ("LIGHTBOX_MAX_BODY_MB", str(BODY_LIMIT_MB)),
        ("LIGHTBOX_SESSIONS", "true"),
        ("LIGHTBOX_STREAMS", "true"),
    )
    return Traffic(Stack("fixed models", models, settings, front=True), KINDS, _clients)


def _clients(server: Running, ledger: Ledger) -> list[Actor]:
    port, front = server.address.port, server.address.front
    wanted = good.requests()
    checks = good.learn(port, front, wanted)
    digit = next(request for request in wanted if request.name == good.DIGIT)

    def client(number: int) -> Client:
        return Client(port, front, keep=number % 2 == 0)

    return [
        *(Good(wanted, checks, client(n), ledger, n) for n in range(GOOD_CLIENTS)),
        *(InSession([digit], checks, client(n), ledger, n) for n in range(SESSION_CLIENTS)),
        *(Hostile(digit.body, Client(port, front), ledger, n) for n in range(HOSTILE_CLIENTS)),
    ]


class Good(Actor):
    """One client whose requests must all be answered rightly."""

    def __init__(
        self, wanted: list[Request], checks: Mapping[str, Check], client: Client, ledger: Ledger, seed: int
    ) -> None:
        super().__init__(client, ledger, seed)
        self._wanted = wanted
        self._checks = checks

    def act(self) -> None:
        """Send one request, and once more where there was no answer."""
        request = self.random.choice(self._wanted)
        self._twice(request, self._checks[request.name])

    def _twice(self, request: Request, check: Check) -> None:
        if self.good(request, check)[0].fate is not Fate.ANSWERED:
            self.ledger.again(self.good(request, check)[1])


class InSession(Good):
    """Opens a session, sends an image, asks about it, closes the session, and begins again.

    Sessions outlive workers: a request is answered whichever of them were killed. What was cut is asked again, but for
    the requests after which nobody knows how it stands with the session: then it begins with another one.
    """

    _session = ""
    _kept = False

    def act(self) -> None:
        """Send the request that is next."""
        check = self._checks[self._wanted[0].name]
        if not self._session:
            outcome, right = self.good(self._request("opened", "NEW_SESSION", asks="NEW_SESSION"), _opened)
            self._session = str(json.loads(outcome.body)["session"]) if right else ""
        elif not self._kept:
            _, self._kept = self.good(self._request("image", self._session, self._wanted[0].body), check)
        elif self.random.random() < 1 / ASKS:
            outcome, _ = self.good(self._request("closed", self._session, asks="CLOSE"))
            if outcome.fate is not Fate.ANSWERED or outcome.status == 200:
                self._session, self._kept = "", False
        else:
            self._twice(self._request("asked", self._session), check)

    def _request(self, name: str, session: str, body: bytes = b"", asks: str = "") -> Request:
        content_type, body = (good.JSON, json.dumps({"requestType": asks}).encode()) if asks else (good.IMAGE, body)
        headers = {**self._wanted[0].headers, SESSION: session, "Content-Type": content_type}
        return Request(f"session, {name}", "/invocations", headers, body)


def _opened(body: bytes) -> str:
    return "" if b'"session"' in body else f"no session: {body[:100]!r}"
