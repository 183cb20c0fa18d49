"""Requests that are dear for what they weigh, from as many clients as are let in: a container of 1 GiB must hold them.

No limit is set on the processes, so that what they would need is seen: the proportional set sizes (PSS, which counts a
shared page once) of all of them together are compared with 1 GiB, several times a second.
"""

from __future__ import annotations

import gzip
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from lightbox.harness.http_client import Client

CONTAINER = 1 << 30
REQUEST_MEMORY_MB = CONTAINER >> 22
"""What Lightbox takes for requests by default in a container of that size: a quarter."""
CLIENTS = 40
PLAIN, UNPACKED = 8 << 20, 99 << 20
LOOK_SECONDS = 0.2
EXPECTED = frozenset({200, 400, 413, 503, 504})


@dataclass
class Weight:
    """What a run found: the highest sum of all processes in bytes, at rest and under load, and how it was answered."""

    rest: int = 0
    highest: int = 0
    by_kind: Mapping[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run(models: Path, folder: Path, seconds: float) -> Weight:
    """Serve, send the worst there is for some time, and stop; ``failures`` is empty when the container held."""
    settings = (
        ("LIGHTBOX_MODEL_SERVER", "embedded"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "rows"),
        ("LIGHTBOX_REQUEST_MEMORY_MB", str(REQUEST_MEMORY_MB)),
    )
    print("== memory: as many dear requests as are let in", file=sys.stderr, flush=True)
    server = Stack("weight", _light(models, folder), settings).start(folder)
    try:
        return _under_load(server, seconds)
    finally:
        server.stop()


def _light(models: Path, folder: Path) -> Path:
    """Return a folder with the model of rows alone: the rest of the container is what the sidecar needs."""
    light = folder / "models"
    light.mkdir(parents=True, exist_ok=True)
    if not (light / "rows").exists():
        (light / "rows").symlink_to(models / "rows")
    return light


def _under_load(server: Running, seconds: float) -> Weight:
    found, stop, lock = Weight(), threading.Event(), threading.Lock()
    root = psutil.Process(server.pid)
    _good(server, found, "before")
    found.rest = sum(_sizes(root).values())
    before = _family(root)
    requests = list(bodies().values())

    def client(number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - not a secret
        while not stop.is_set():
            told = _ask(server.address.port, *chance.choice(requests))
            with lock:
                found.answers[told] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sizes = _sizes(root)
        if sum(sizes.values()) > found.highest:
            found.highest, found.by_kind = sum(sizes.values()), sizes
        time.sleep(LOOK_SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    _judge(found, before - _family(root))
    _good(server, found, "after")
    return found


def _judge(found: Weight, gone: set[int]) -> None:
    if found.highest > CONTAINER:
        found.failures.append(f"all processes together took {found.highest >> 20} MiB, more than {CONTAINER >> 20}")
    if gone:
        found.failures.append(f"{len(gone)} processes have ended under load")
    unexpected = {told for told in found.answers if told not in {str(status) for status in EXPECTED}}
    found.failures += [f"{found.answers[told]} requests were answered with {told}" for told in sorted(unexpected)]


def bodies() -> dict[str, tuple[str, bytes, dict[str, str]]]:
    """Return path, body and headers of each kind: many small values, plain and packed."""
    found: dict[str, tuple[str, bytes, dict[str, str]]] = {}
    units = {
        "csv": ("/invocations", "text/csv", b"", b"1\n", b"1"),
        "lines": ("/invocations", "application/jsonlines", b"", b"[]\n", b"[]"),
        "json": ("/invocations", "application/json", b"[", b"[],", b"[]]"),
        "digits": ("/invocations", "application/json", b"[", b"[1,2,3,4],", b"[1,2,3,4]]"),
        "v2": ("/v2/models/rows/infer", "application/json", b'{"inputs":[', b'{"name":""},', b'{"name":""}]}'),
    }
    for name, (path, content_type, head, unit, tail) in units.items():
        headers = {"Content-Type": content_type}
        found[name] = (path, head + unit * (PLAIN // len(unit)) + tail, headers)
        packed = gzip.compress(head + unit * (UNPACKED // len(unit)) + tail, 1)
        found[f"{name} packed"] = (path, packed, {**headers, "Content-Encoding": "gzip"})
    return found


def _ask(port: int, path: str, body: bytes, headers: Mapping[str, str]) -> str:
    with Client(port, timeout=90) as client:
        try:
            return str(client.send("POST", path, body, headers).status)
        except OSError as error:
            return repr(error)


def _good(server: Running, found: Weight, when: str) -> None:
    told = _ask(server.address.port, "/invocations", b"[[1,2,3,4]]", {"Content-Type": "application/json"})
    if told != "200":
        found.failures.append(f"a good request {when} the load was answered with {told}")


def _family(root: psutil.Process) -> set[int]:
    """Return the processes that must outlive the load; nginx's cleaners and the like come and go."""
    return {process.pid for process in _processes(root) if _kind(process)}


def _processes(root: psutil.Process) -> list[psutil.Process]:
    return [root, *root.children(recursive=True)]


def _kind(process: psutil.Process) -> str:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return ""
    kinds = {"nginx": "nginx", "gunicorn": "gunicorn", "grpc_front": "gRPC front", "model_server": "model server"}
    return next((kind for part, kind in kinds.items() if part in command), "supervisor" if command else "")


def _sizes(root: psutil.Process) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for process in _processes(root):
        try:
            sizes[_kind(process)] += process.memory_full_info().pss
        except psutil.Error:
            continue
    return dict(sizes)
