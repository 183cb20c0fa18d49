"""The traffic of multi-model mode: each client repeatedly loads, invokes and unloads its own model.

One client removes the folder of its loaded model, as SageMaker does to free space. Others only invoke a model that
stays, which is answered whatever loads wait for. Workers are also killed during a load, after the model server has the
model and before the worker lists it; the client then loads it again.

Names are not shared, so a client knows the expected result: after a load's 200 every version answers, after an unload's
404. After a 503 either is possible. A load or unload whose connection ended with an nginx process can
still complete at any time: the client abandons that name and continues with another.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from benchmark.servers import Running, Stack
from faults.answers import Form, read
from faults.callers import Act, Caller, any_of, ping
from faults.client import Client, Request
from faults.good import ATTRIBUTES
from faults.history import History
from faults.stack import Settings, Traffic
from real_server.program import RECORD

OWNERS = 3
_NUMBERS = count()
_USES = 6
"""Most invocations between a load and an unload."""
ARCHIVE, FOLDER, TORN = "packed.tar.gz", "half", "torn"
STAYS = "stays"
LOAD_SECONDS = 90.0
"""Loads have 60 s of their own."""
_ROW, _RESPONSES = b"1\n", {version: f'{{"predictions": [{version + 1.5}]}}'.encode() for version in (1, 2)}
"""An input, and the response of each version of the model."""
Prepare = Callable[[Path, str], Request]
"""Makes the files of a new name in the folder of models, and returns the request that loads it."""


def changing_models(models: Path, model_server: Settings) -> Traffic:
    """Return the traffic in multi-model mode to a new folder of models.

    It has a model of two versions, an archive of it, and a version with unreadable variables.
    """
    shutil.rmtree(models, ignore_errors=True)
    shutil.copytree(RECORD / "models" / "half_plus_two", models / FOLDER)
    with tarfile.open(models / ARCHIVE, "w:gz") as archive:
        archive.add(models / FOLDER, ".")
    shutil.copytree(models / FOLDER / "1", models / TORN / "1")
    (models / TORN / "1" / "variables" / "variables.index").write_bytes(b"garbage" * 20)
    stack = Stack("changing models", models, (("SAGEMAKER_MULTI_MODEL", "true"), *model_server))
    # Its variables are incomplete.
    torn = replace(_load(TORN, TORN), name="torn model", expected=(400,))
    acts: list[Act] = [
        ping,
        *[partial(own, models, lambda models, name: _load(name, FOLDER))] * OWNERS,
        *(partial(own, models, partial(_first_use, target)) for target in (ARCHIVE, FOLDER)),
        partial(own, models, _load_copy, removes=True),
        partial(any_of, [torn]),
        # So many that hardly ever all are in a worker that is frozen.
        *[lambda caller: caller.send(_invocation(caller, STAYS))] * OWNERS,
    ]

    def begin(server: Running, history: History) -> list[Act]:
        for version, answer in _RESPONSES.items():
            history.at_rest(_name(version), read(answer, Form.TEXT))
        with closing(Client(server.address)) as client:
            loaded = client.send(_load(STAYS, FOLDER))
        if loaded.status != 200:
            raise RuntimeError(f"{STAYS} cannot be loaded: {loaded.fate}, {loaded.status} {loaded.body!r}")
        return acts

    return Traffic(stack, begin)


def own(models: Path, prepare: Prepare, caller: Caller, removes: bool = False) -> None:
    """Load, use and unload a model of a new name, repeatedly, until a result is unknown.

    With ``removes`` the client removes the model's folder before it unloads the model. In between the model answers, or
    is already unloaded: the next load of any model unloads it.
    """
    name = f"own-{next(_NUMBERS)}"
    load = prepare(models, name)
    unload = Request("unload", f"/models/{name}", method="DELETE")
    is_gone: bool | None = True
    while is_gone is not None:
        if is_gone and caller.random.random() < 0.3:
            caller.send(_invocation(caller, name, 404))
        is_loaded = caller.change(load if is_gone else replace(load, expected=(200, 409)))
        if not is_loaded:
            is_gone = is_loaded
            continue
        for _ in range(caller.random.randrange(_USES)):
            caller.send(_invocation(caller, name))
        if removes:
            shutil.rmtree(models / name)
            caller.send(_invocation(caller, name, 200, 404))
            caller.send(replace(unload, expected=(200, 404)))
            return
        is_gone = caller.change(unload)


def _invocation(caller: Caller, name: str, *expected: int) -> Request:
    """Return an invocation that expects the correct answer, or one of some statuses with any body."""
    version = caller.random.choice(list(_RESPONSES))
    headers = {"Content-Type": "text/csv", ATTRIBUTES: f"tfs-model-version={version}"}
    request = Request("invoke", f"/models/{name}/invoke", headers, _ROW, expected=expected)
    return request if expected else replace(request, expected=(200,), like=_name(version))


def _load_copy(models: Path, name: str) -> Request:
    """Load a copy of the model, in a folder of its own."""
    shutil.copytree(models / FOLDER, models / name)
    return _load(name, name)


def _first_use(target: str, models: Path, name: str) -> Request:
    """Load the model by the first use of a target, as with boto3's TargetModel."""
    path = models / (name + "".join(Path(target).suffixes))
    (shutil.copytree if target == FOLDER else shutil.copyfile)(models / target, path)
    headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Model": path.name}
    return Request(
        "first use", "/endpoints/any/invocations", headers, _ROW, like=_name(max(_RESPONSES)), limit=LOAD_SECONDS
    )


def _load(name: str, url: str) -> Request:
    return Request("load", "/models", body=json.dumps({"model_name": name, "url": url}).encode(), limit=LOAD_SECONDS)


def _name(version: int) -> str:
    return f"version {version}"
