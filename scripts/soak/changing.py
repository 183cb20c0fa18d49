"""The traffic of multi-model mode: each client repeatedly loads, invokes and unloads its own model.

One client removes the folder of its loaded model, as SageMaker does to free space. Workers are also killed during a
load, after the model server has the model and before the worker lists it; the client then loads it again.

Names are not shared, so a client knows the expected result: after a load's 200 every version answers, after an unload's
404. After a 503 either is possible. A load or unload whose connection ended with an nginx process can
still complete at any time: the client abandons that name and continues with another.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from benchmark.servers import Running, Stack
from soak.client import Client, Fate, Outcome, Request, nothing_wrong
from soak.good import ATTRIBUTES
from soak.killer import IN_A_LOAD
from soak.ledger import Ledger
from soak.run import LEAST, Actor, Caller, Traffic
from soak.stack import ARCHIVE, FOLDER, KINDS, TORN, VERSIONS, Settings

OWNERS = 3
_USES = 6
"""Most invocations between a load and an unload."""
_ROWS, _SUM = b"1,2,3,4\n", [10.0]


def changing_models(models: Path, model_server: Settings) -> Traffic:
    """Return the traffic in multi-model mode to a folder of models."""
    stack = Stack("changing models", models, (("SAGEMAKER_MULTI_MODEL", "true"), *model_server))
    kinds = [kind for kind in KINDS if kind not in ("gRPC front", "stream worker")] + [IN_A_LOAD] * 3
    return Traffic(stack, kinds, partial(_clients, models), LEAST)


def _clients(root: Path, server: Running, ledger: Ledger) -> list[Actor]:
    port, numbers = server.address.port, count()
    # Its variables are incomplete: the load must fail with the name of the file.
    torn = replace(_load(TORN, TORN), name="torn model", expected=(400,), check=_names_the_file)
    return [
        *(Owner(port, ledger, next(numbers), root) for _ in range(OWNERS)),
        *(Visitor(port, ledger, next(numbers), root / target) for target in (ARCHIVE, FOLDER)),
        Remover(port, ledger, next(numbers), root),
        Caller([torn], Client(port, keep=True), ledger),
    ]


class Owner(Actor):
    """Loads, uses and unloads a model under its own name; ``models`` is the folder or file of models."""

    def __init__(self, port: int, ledger: Ledger, number: int, models: Path) -> None:
        super().__init__(Client(port, keep=number % 2 == 0), ledger, number)
        self._models = models
        self._name = self._folder = ""
        self._names = (f"own-{number}-{times}" for times in count())

    def acts(self) -> Iterator[None]:
        """Load, use, unload and check the removal, repeatedly; use a new name after an unknown result."""
        is_gone: bool | None = None
        while True:
            if is_gone is None:
                self._name, is_gone = next(self._names), True
                self._begin()
            if is_gone and self.random.random() < 0.3:
                self.send(self._invocation(404))
                yield
            is_loaded = self._load(is_gone)
            yield
            if not is_loaded:
                is_gone = is_loaded
                continue
            for _ in range(self.random.randrange(_USES)):
                self.send(self._invocation())
                yield
            is_gone = self._unload()
            yield

    def _begin(self) -> None:
        """Prepare the files of a new name."""
        self._folder = FOLDER

    def _load(self, is_gone: bool) -> bool | None:
        """Load the model; ``is_gone`` is its state before. Return whether it is loaded, None if unknown."""
        request = _load(self._name, self._folder)
        return _settled(*self.send(request if is_gone else replace(request, expected=(200, 409))))

    def _unload(self) -> bool | None:
        """Unload the model; return whether it is gone, None if unknown."""
        return _settled(*self.send(self._unloading()))

    def _invocation(self, *expected: int) -> Request:
        """Return an invocation that expects the correct answer, or one of some statuses with any body."""
        headers = {"Content-Type": "text/csv", ATTRIBUTES: f"tfs-model-version={self.random.choice(VERSIONS)}"}
        request = Request("invoke", f"/models/{self._name}/invoke", headers, _ROWS, check=_wrong)
        return replace(request, expected=expected, check=nothing_wrong) if expected else request

    def _unloading(self, *expected: int) -> Request:
        return Request("unload", f"/models/{self._name}", method="DELETE", expected=expected or (200,))


class Visitor(Owner):
    """Loads a model by the first use of a target, as with boto3's TargetModel, and unloads it by name."""

    def _begin(self) -> None:
        self._target = self._name + "".join(self._models.suffixes)
        link = self._models.with_name(self._target)
        link.unlink(missing_ok=True)
        link.symlink_to(self._models.name)

    def _load(self, is_gone: bool) -> bool | None:
        headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Model": self._target}
        return _settled(*self.send(Request("first use", "/endpoints/any/invocations", headers, _ROWS, check=_wrong)))


class Remover(Owner):
    """Loads a model from its own folder, and removes the folder before it unloads the model.

    In between the model answers, or is already unloaded: the next load of any model unloads it.
    """

    def _begin(self) -> None:
        self._folder = self._name
        shutil.rmtree(self._models / self._folder, ignore_errors=True)
        shutil.copytree(self._models / FOLDER, self._models / self._folder)

    def _unload(self) -> bool | None:
        shutil.rmtree(self._models / self._folder)
        for request in (self._invocation(200, 404), self._unloading(200, 404)):
            self.send(request)
        return None


def _load(name: str, url: str) -> Request:
    return Request("load", "/models", body=json.dumps({"model_name": name, "url": url}).encode())


def _settled(outcome: Outcome, right: bool) -> bool | None:
    """Return whether a change was made; None if the connection ended, because it can still complete at any time."""
    return right if outcome.fate is Fate.ANSWERED else None


def _names_the_file(body: bytes) -> str:
    wanted = f"{TORN}/1/variables/variables.index is damaged"
    return "" if wanted.encode() in body else f"without {wanted!r}: {body[:200]!r}"


def _wrong(body: bytes) -> str:
    try:
        right = json.loads(body) == {"predictions": _SUM}
    except ValueError:
        right = False
    return "" if right else f"another answer: {body[:100]!r}"
