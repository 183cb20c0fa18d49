"""The traffic of a stack whose models are there from the start: every way in, and hostile clients beside it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from soak import good
from soak.client import Client
from soak.exchange import Check, Fate, Outcome, Request
from soak.hostile import BODY_LIMIT_MB, Hostile
from soak.ledger import Ledger
from soak.model_server import Settings
from soak.processes import KINDS
from soak.sessions import SessionClient

GOOD_CLIENTS, HOSTILE_CLIENTS, SESSION_CLIENTS = 6, 4, 2


class FixedModels:
    """Traffic to models that stay."""

    kinds = KINDS

    def __init__(self, models: Path, model_server: Settings) -> None:
        settings = (
            *model_server,
            ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2"),
            ("LIGHTBOX_MAX_BODY_MB", str(BODY_LIMIT_MB)),
            ("LIGHTBOX_SESSIONS", "true"),
            ("LIGHTBOX_STREAMS", "true"),
        )
        self.stack = Stack("fixed models", models, settings, front=True)

    def clients(self, server: Running, ledger: Ledger) -> list[Good | Hostile | SessionClient]:
        """Return the clients of this traffic."""
        port, front = server.address.port, server.address.front
        wanted = good.requests()
        checks = good.learn(port, front, wanted)
        digit = next(request for request in wanted if request.name.startswith("digit image"))
        image, check = digit.body, checks[digit.name]
        return [
            *(Good(Client(port, front, n % 2 == 0), wanted, checks, ledger, n) for n in range(GOOD_CLIENTS)),
            *(SessionClient(Client(port, front, n % 2 == 0), digit, check, ledger, n) for n in range(SESSION_CLIENTS)),
            *(Hostile(port, front, ledger, image, n) for n in range(HOSTILE_CLIENTS)),
        ]


class Good:
    """One client whose requests must all be answered rightly."""

    def __init__(
        self, caller: Client, wanted: list[Request], checks: Mapping[str, Check], ledger: Ledger, seed: int
    ) -> None:
        self._caller = caller
        self._wanted = wanted
        self._checks = checks
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 - not a secret

    def act(self) -> None:
        """Send one request, and once more where there was no answer."""
        request = self._random.choice(self._wanted)
        outcome = self._caller.send(request)
        self._note(outcome)
        if outcome.fate is not Fate.ANSWERED:
            self._ledger.again(self._note(self._caller.send(request)))

    def _note(self, outcome: Outcome) -> bool:
        return self._ledger.good(outcome, self._checks[outcome.name](outcome.body) if outcome.status == 200 else "")

    def close(self) -> None:
        """Close the connections."""
        self._caller.close()
