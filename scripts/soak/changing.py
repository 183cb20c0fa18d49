"""The traffic of multi-model mode: models are loaded, invoked and unloaded, each by one client, again and again.

One removes the folder of the model that it has loaded, as SageMaker does when it makes room. One kills the worker of
its load when the model server has been told of it and the worker has not listed it yet, each time, and loads it again
at once.

Since a client's name is its own, it knows what must come: after a load's 200 every version answers, after an unload's
404. After 503 it does not know which of both it will find. A load or unload whose connection ended with an nginx may
still be carried out, at any time: the client leaves that name alone, and goes on with another.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from benchmark.servers import Running, Stack
from lightbox.transports.standing_reload import FILE, standing
from soak.client import Client, Fate, Outcome, Request
from soak.good import ATTRIBUTES
from soak.ledger import Ledger
from soak.run import Actor, Traffic
from soak.stack import ARCHIVE, FOLDER, KINDS, TORN, VERSIONS, Settings

OWNERS = 3
IN_A_LOAD = "worker in a load"
KILL_SECONDS, LOOK_SECONDS, TOLD_SECONDS = 10.0, 0.005, 0.02
"""Between two such kills; between two looks at the load; from when the worker begins to tell to when it has told, while
the load itself takes 0.1 s and more."""
_USES = 6
"""Most invocations between a load and an unload."""
_ROWS, _SUM = b"1,2,3,4\n", [10.0]


def changing_models(models: Path, model_server: Settings) -> Traffic:
    """Return the traffic in multi-model mode to a folder of models."""
    stack = Stack("changing models", models, (("SAGEMAKER_MULTI_MODEL", "true"), *model_server))
    kinds = [kind for kind in KINDS if kind not in ("gRPC front", "stream worker")]
    return Traffic(stack, kinds, partial(_clients, models))


def _clients(root: Path, server: Running, ledger: Ledger) -> list[Actor]:
    port, numbers = server.address.port, count()
    assert server.temporary is not None, "a stack has a folder of its own"
    run_dir = next(server.temporary.glob("lightbox-*"))
    return [
        *(Owner(port, ledger, next(numbers), root) for _ in range(OWNERS)),
        *(Visitor(port, ledger, next(numbers), root / target) for target in (ARCHIVE, FOLDER)),
        Remover(port, ledger, next(numbers), root),
        WorkerKiller(port, ledger, next(numbers), root / ARCHIVE, run_dir),
        Torn(Client(port, keep=True), ledger),
    ]


class Owner(Actor):
    """Loads, uses and unloads a model of a name that nobody else uses; ``models`` is the folder or file of models."""

    def __init__(self, port: int, ledger: Ledger, number: int, models: Path) -> None:
        super().__init__(Client(port, keep=number % 2 == 0), ledger, number)
        self._models = models
        self._uses = 0
        self._names = (f"own-{number}-{times}" for times in count())
        self._take_new_name()

    def _take_new_name(self) -> None:
        self._name, self._folder = next(self._names), FOLDER
        self._loaded: bool | None = False

    def act(self) -> None:
        """Do what is next: load, use some times, unload, see that it is gone."""
        if self._loaded and self._uses:
            self._uses -= 1
            self.good(self._invocation(), _wrong)
        elif self._loaded:
            self._change(self._unloading(), unsure=False, already=404, loaded=False)
        elif self._loaded is False and self.random.random() < 0.3:
            self.note(self.client.send(self._invocation()), 404)
        else:
            self._load()
            self._uses = self.random.randrange(_USES)

    def _load(self) -> None:
        url = json.dumps({"model_name": self._name, "url": self._folder}).encode()
        self._change(Request("load", "/models", body=url), unsure=self._loaded is None, already=409, loaded=True)

    def _change(self, request: Request, unsure: bool, already: int, loaded: bool) -> None:
        """Note a load or an unload; one that is sent again may have been carried out already."""
        outcome = self.client.send(request)
        if unsure and outcome.status == already:
            self.note(outcome, already)
            self._loaded = loaded
        else:
            self._changed(outcome, self.ledger.good(outcome, ""), loaded)

    def _changed(self, outcome: Outcome, right: bool, loaded: bool) -> None:
        self._loaded = loaded if right else None
        if outcome.fate is not Fate.ANSWERED:
            self._take_new_name()

    def _invocation(self) -> Request:
        attributes = f"tfs-model-version={self.random.choice(VERSIONS)}"
        headers = {"Content-Type": "text/csv", ATTRIBUTES: attributes}
        return Request("invoke", f"/models/{self._name}/invoke", headers, _ROWS)

    def _unloading(self) -> Request:
        return Request("unload", f"/models/{self._name}", method="DELETE")


class Visitor(Owner):
    """Loads by the first use of a target, as boto3's TargetModel has it, and unloads it by its name."""

    def _take_new_name(self) -> None:
        super()._take_new_name()
        self._target = self._name + "".join(self._models.suffixes)
        link = self._models.with_name(self._target)
        link.unlink(missing_ok=True)
        link.symlink_to(self._models.name)

    def _first_use(self) -> Request:
        headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Model": self._target}
        return Request("first use", "/endpoints/any/invocations", headers, _ROWS)

    def _load(self) -> None:
        self._changed(*self.good(self._first_use(), _wrong), loaded=True)


class Remover(Owner):
    """Loads a model from a folder of its own, and removes the folder before it unloads the model.

    Until then the model answers, or is not loaded any more: the next load of any model unloads it.
    """

    def _take_new_name(self) -> None:
        super()._take_new_name()
        self._folder = self._name
        shutil.rmtree(self._models / self._folder, ignore_errors=True)
        shutil.copytree(self._models / FOLDER, self._models / self._folder)

    def act(self) -> None:
        """Load, use and remove; use it once more, and unload it."""
        if self._loaded is not True or self._uses:
            super().act()
            return
        shutil.rmtree(self._models / self._folder)
        for request in (self._invocation(), self._unloading()):
            self.note(self.client.send(request), 200, 404)
        self._take_new_name()


class WorkerKiller(Visitor):
    """Has the worker of its load killed between telling the model server and listing the model."""

    def __init__(self, port: int, ledger: Ledger, number: int, models: Path, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._rest_until = 0.0
        super().__init__(port, ledger, number, models)

    def act(self) -> None:
        """Now and then, so that others have answers between: kill, load, use and unload."""
        if self._loaded is not False:
            super().act()
        elif time.monotonic() >= self._rest_until:
            self._rest_until = time.monotonic() + KILL_SECONDS
            self.client.close()  # it has been idle: who knows when nginx closed it
            self._load_in_vain()
            self._load()
            self._uses = self.random.randrange(_USES)

    def _load_in_vain(self) -> None:
        lock = self._run_dir / FILE.format(0)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(Client(self.client.port).send, self._first_use())
            while not first.done():
                time.sleep(LOOK_SECONDS)
                stands = standing(self._run_dir, 0)
                if stands and (stands.change, stands.model) == ("load", self._name):
                    worker = holder(lock)
                    time.sleep(TOLD_SECONDS)
                    if worker is not None:
                        with self.ledger.killing(IN_A_LOAD, signal.SIGKILL.name), suppress(ProcessLookupError):
                            os.kill(worker, signal.SIGKILL)
                    break
        self.note(first.result(), 200)
        if first.result().fate is not Fate.ANSWERED:
            self._take_new_name()


def holder(lock: Path) -> int | None:
    """Return the process that holds a lock, as the kernel lists them; None where it is given up."""
    with suppress(FileNotFoundError):
        inode = str(lock.stat().st_ino)
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return next((int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")), None)
    return None


class Torn(Actor):
    """Loads a model whose variables are not whole; it must be refused with the name of the file."""

    def act(self) -> None:
        """Try it once more."""
        url = json.dumps({"model_name": TORN, "url": TORN}).encode()
        outcome = self.client.send(Request("torn model", "/models", body=url))
        told = outcome.status != 400 or f"{TORN}/1/variables/variables.index is damaged".encode() in outcome.body
        self.note(outcome, *[400] * told)


def _wrong(body: bytes) -> str:
    try:
        right = json.loads(body) == {"predictions": _SUM}
    except ValueError:
        right = False
    return "" if right else f"another answer: {body[:100]!r}"
