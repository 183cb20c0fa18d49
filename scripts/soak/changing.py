"""The traffic of multi-model mode: models are loaded, invoked and unloaded, each by one client, again and again.

Since a client's name is its own, it knows what must come: after a load's 200 every version answers, after an unload's
404. After 503 it does not know which of both it will find. A load or unload whose connection ended with an nginx may
still be carried out, at any time: the client leaves that name alone, and goes on with another.
"""

from __future__ import annotations

import json
import random
from itertools import count
from pathlib import Path

from benchmark.servers.address import Address
from benchmark.servers.stack import Stack
from soak.exchange import Caller, Fate, Outcome, Request
from soak.good import ATTRIBUTES
from soak.ledger import Ledger
from soak.processes import KINDS

OWNERS = 3
ARCHIVE, FOLDER, TORN = "packed.tar.gz", "rows", "torn"
VERSIONS = (1, 2)
_USES = 6
"""Most invocations between a load and an unload."""
_ROWS, _SUM = b"1,2,3,4\n", [10.0]


class ChangingModels:
    """See run.Traffic."""

    kinds = tuple(kind for kind in KINDS if kind not in ("gRPC front", "stream worker"))

    def __init__(self, models: Path) -> None:
        settings = (("SAGEMAKER_MULTI_MODEL", "true"), ("LIGHTBOX_MODEL_SERVER", "embedded"))
        self.stack = Stack("changing models", models, settings)

    def clients(self, address: Address, ledger: Ledger) -> list[Owner | Torn]:
        """See run.Traffic."""
        by_name = [Owner(address.port, ledger, number) for number in range(OWNERS)]
        by_target = [
            Visitor(address.port, ledger, OWNERS + number, self.stack.models / target)
            for number, target in enumerate((ARCHIVE, FOLDER))
        ]
        return [*by_name, *by_target, Torn(address.port, ledger)]


class Owner:
    """Loads, uses and unloads a model of a name that nobody else uses."""

    def __init__(self, port: int, ledger: Ledger, number: int) -> None:
        self._caller = Caller(port, keep=number % 2 == 0)
        self._ledger = ledger
        self._number = number
        self._random = random.Random(number)  # noqa: S311 - not a secret
        self._uses = 0
        self._names = count()
        self._take_new_name()

    def _take_new_name(self) -> None:
        self._name = f"own-{self._number}-{next(self._names)}"
        self._loaded: bool | None = False

    def act(self) -> None:
        """Do what is next: load, use some times, unload, see that it is gone."""
        if self._loaded and self._uses:
            self._uses -= 1
            self._invoke()
        elif self._loaded:
            self._unload()
        elif self._loaded is False and self._random.random() < 0.3:
            self._note(self._caller.send(self._invocation()), 404)
        else:
            self._load()

    def _load(self) -> None:
        url = json.dumps({"model_name": self._name, "url": FOLDER}).encode()
        outcome = self._caller.send(Request("load", "/models", body=url))
        self._change(outcome, unsure=self._loaded is None, already=409, loaded=True)
        self._uses = self._random.randrange(_USES)

    def _unload(self) -> None:
        outcome = self._caller.send(Request("unload", f"/models/{self._name}", method="DELETE"))
        self._change(outcome, unsure=False, already=404, loaded=False)

    def _change(self, outcome: Outcome, unsure: bool, already: int, loaded: bool) -> None:
        """Note a load or an unload; one that is sent again may have been carried out already."""
        if unsure and outcome.status == already:
            self._note(outcome, already)
            self._loaded = loaded
        else:
            self._changed(outcome, self._ledger.good(outcome, ""), loaded)

    def _changed(self, outcome: Outcome, right: bool, loaded: bool) -> None:
        self._loaded = loaded if right else None
        if outcome.fate is not Fate.ANSWERED:
            self._take_new_name()

    def _invoke(self) -> None:
        outcome = self._caller.send(self._invocation())
        self._ledger.good(outcome, _wrong(outcome.body) if outcome.status == 200 else "")

    def _invocation(self) -> Request:
        attributes = f"tfs-model-version={self._random.choice(VERSIONS)}"
        headers = {"Content-Type": "text/csv", ATTRIBUTES: attributes}
        return Request("invoke", f"/models/{self._name}/invoke", headers, _ROWS)

    def _note(self, outcome: Outcome, expected: int) -> None:
        if outcome.fate is Fate.ANSWERED:
            self._ledger.hostile(outcome, (expected,))
        else:
            self._ledger.good(outcome, "")

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()


class Visitor(Owner):
    """Loads by the first use of a target, as boto3's TargetModel has it, and unloads it by its name."""

    def __init__(self, port: int, ledger: Ledger, number: int, model: Path) -> None:
        self._model = model
        super().__init__(port, ledger, number)

    def _take_new_name(self) -> None:
        super()._take_new_name()
        self._target = self._name + "".join(self._model.suffixes)
        link = self._model.with_name(self._target)
        link.unlink(missing_ok=True)
        link.symlink_to(self._model.name)

    def _load(self) -> None:
        headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Model": self._target}
        outcome = self._caller.send(Request("first use", "/endpoints/any/invocations", headers, _ROWS))
        right = self._ledger.good(outcome, _wrong(outcome.body) if outcome.status == 200 else "")
        self._changed(outcome, right, loaded=True)
        self._uses = self._random.randrange(_USES)


class Torn:
    """Loads a model whose variables are not whole; it must be refused with the name of the file."""

    def __init__(self, port: int, ledger: Ledger) -> None:
        self._caller = Caller(port, keep=True)
        self._ledger = ledger

    def act(self) -> None:
        """Try it once more."""
        url = json.dumps({"model_name": TORN, "url": TORN}).encode()
        outcome = self._caller.send(Request("torn model", "/models", body=url))
        if outcome.fate is Fate.ANSWERED:
            told = outcome.status != 400 or f"{TORN}/1/variables/variables.index is damaged".encode() in outcome.body
            self._ledger.hostile(outcome, (400,) if told else ())
        else:
            self._ledger.good(outcome, "")

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()


def _wrong(body: bytes) -> str:
    try:
        right = json.loads(body) == {"predictions": _SUM}
    except ValueError:
        right = False
    return "" if right else f"another answer: {body[:100]!r}"
