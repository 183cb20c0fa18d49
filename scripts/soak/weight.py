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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from lightbox.harness.tables import padded_table
from soak.client import Client, Fate, Request
from soak.stack import OTHER, by_kind, memory

CONTAINER = 1 << 30
REQUEST_MEMORY_MB = CONTAINER >> 22
"""What Lightbox takes for requests by default in a container of that size: a quarter."""
CLIENTS = 40
PLAIN, UNPACKED = 8 << 20, 99 << 20
LOOK_SECONDS = 0.2
EXPECTED = {"200", "400", "413", "503", "504"}
UNITS = {
    "csv": ("/invocations", "text/csv", b"", b"1\n", b"1"),
    "lines": ("/invocations", "application/jsonlines", b"", b"[]\n", b"[]"),
    "json": ("/invocations", "application/json", b"[", b"[],", b"[]]"),
    "digits": ("/invocations", "application/json", b"[", b"[1,2,3,4],", b"[1,2,3,4]]"),
    "v2": ("/v2/models/rows/infer", "application/json", b'{"inputs":[', b'{"name":""},', b'{"name":""}]}'),
}
"""Many small values: path, media type, beginning, what is repeated, and end."""
GOOD = Request("good", "/invocations", {"Content-Type": "application/json"}, b"[[1,2,3,4]]")


def run(models: Path, folder: Path, seconds: float) -> tuple[str, bool]:
    """Serve, send the worst there is for some time, and stop; return the report, and whether the container held."""
    settings = (
        ("LIGHTBOX_MODEL_SERVER", "embedded"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "rows"),
        ("LIGHTBOX_REQUEST_MEMORY_MB", str(REQUEST_MEMORY_MB)),
    )
    # The model of rows alone: the rest of the container is what the sidecar needs.
    light = folder / "models"
    light.mkdir(parents=True, exist_ok=True)
    if not (light / "rows").exists():
        (light / "rows").symlink_to(models / "rows")
    print("== memory: as many dear requests as are let in", file=sys.stderr, flush=True)
    server = Stack("weight", light, settings).start(folder)
    try:
        return _under_load(server, seconds)
    finally:
        server.stop()


def _under_load(server: Running, seconds: float) -> tuple[str, bool]:
    port, pid = server.address.port, server.pid
    failures = [f"a good request before the load was answered with {told}" for told in {_told(port, GOOD)} - {"200"}]
    before, rest = _lasting(pid), sum(memory(pid, proportional=True).values())
    highest: dict[str, int] = {}
    requests, stop = bodies(), threading.Event()

    def client(number: int) -> Counter[str]:
        answers: Counter[str] = Counter()
        chance = random.Random(number)  # noqa: S311 - not a secret
        while not stop.is_set():
            answers[_told(port, chance.choice(requests))] += 1
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                highest = max(highest, memory(pid, proportional=True), key=lambda sizes: sum(sizes.values()))
                time.sleep(LOOK_SECONDS)
        finally:
            stop.set()
    answers = sum((each.result() for each in clients), Counter[str]())
    at_most, gone = sum(highest.values()), before - _lasting(pid)
    if at_most > CONTAINER:
        failures.append(f"all processes together took {at_most >> 20} MiB, more than {CONTAINER >> 20}")
    if gone:
        failures.append(f"{len(gone)} processes have ended under load")
    failures += [f"{answers[told]} requests were answered with {told}" for told in sorted(answers.keys() - EXPECTED)]
    failures += [f"a good request after the load was answered with {told}" for told in {_told(port, GOOD)} - {"200"}]
    sizes = {"all processes, at rest": rest, "all processes, at most": at_most}
    sizes |= {f"of these the {kind}": size for kind, size in highest.items() if size}
    lines = [
        *padded_table(("memory (PSS)", "MiB"), [(name, f"{size >> 20}") for name, size in sizes.items()]),
        "",
        *padded_table(("answer", "number"), [(told, f"{count:,}") for told, count in sorted(answers.items())]),
        "",
        *(f"FAILED: {line}" for line in failures),
    ]
    return "\n".join(lines).rstrip(), not failures


def bodies() -> list[Request]:
    """Return a request of each kind of small values, plain and packed."""
    found = []
    for name, (path, content_type, head, unit, tail) in UNITS.items():
        headers = {"Content-Type": content_type}
        plain, unpacked = (head + unit * (size // len(unit)) + tail for size in (PLAIN, UNPACKED))
        found.append(Request(name, path, headers, plain))
        packed = {**headers, "Content-Encoding": "gzip"}
        found.append(Request(f"{name} packed", path, packed, gzip.compress(unpacked, 1)))
    return found


def _told(port: int, request: Request) -> str:
    """Return the status of an answer, or why there is none."""
    outcome = Client(port).send(request)
    return str(outcome.status) if outcome.fate is Fate.ANSWERED else f"{outcome.fate}: {outcome.detail}"


def _lasting(pid: int) -> set[int]:
    """Return the processes that must outlive the load."""
    return {process.pid for kind, found in by_kind(pid).items() if kind != OTHER for process in found}
