"""Compares the benchmark's client with two public ones: ``python -m benchmark.other_clients``

Debian's ``hey`` and ``h2load`` (package nghttp2-client) post the same photograph to the same endpoint, in turn with
the benchmark's client, each in its own process. Prints a table of each client's report and its own CPU time.
"""

from __future__ import annotations

import csv
import io
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from benchmark import machine, photos
from benchmark.clients import Load, Sample, client_process
from benchmark.figures import summarise
from benchmark.pages import tables
from benchmark.scenarios import common
from benchmark.servers import Running
from lightbox.base.telemetry import say

ROUNDS = 6
REQUESTS = {1: 150, 8: 600}
"""Clients, and how many requests they send together in a round."""
MODEL = "mobilenet_v2"
COLUMNS = {
    "requests/s": "throughput",
    "p50 ms": "p50",
    "p99": "p99",
    "the client's CPU, ms a request": "client_cpu_ms",
    "failed": "errors",
}
"""Columns of the table, and the figures in them."""


@dataclass
class Target:
    """An endpoint, the file to post with a custom attributes header, and a folder for logs."""

    running: Running
    image: Path
    attributes: str
    folder: Path

    @property
    def url(self) -> str:
        """The URL that takes the images."""
        return f"http://{self.running.address.host}:{self.running.address.port}/invocations"


Tool = Callable[[Target, int, int], Sample]
"""Sends so many requests by so many clients."""


def hey(target: Target, requests: int, clients: int) -> Sample:
    """Run hey with one connection per client."""
    command = f"hey -n {requests} -c {clients} -m POST -D {target.image} -T {common.IMAGE} -o csv".split()
    sample, output = _run([*command, "-H", target.attributes, target.url])
    for row in csv.DictReader(io.StringIO(output)):
        _note(sample, row["status-code"], float(row["offset"]), float(row["response-time"]))
    return sample


def h2load(target: Target, requests: int, clients: int) -> Sample:
    """Run h2load with HTTP/1.1 and one thread."""
    log = target.folder / "h2load.log"
    log.unlink(missing_ok=True)
    command = f"h2load --h1 -n {requests} -c {clients} -d {target.image} --log-file={log}".split()
    sample, _ = _run([*command, "-H", f"content-type: {common.IMAGE}", "-H", target.attributes, target.url])
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    first = min(int(start) for start, _, _ in rows)
    for start, status, microseconds in rows:
        _note(sample, status, (int(start) - first) / 1e6, int(microseconds) / 1e6)
    return sample


def _run(command: list[str]) -> tuple[Sample, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a program named above
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


def _note(sample: Sample, status: str, start: float, seconds: float) -> None:
    """Record a response; the run lasts from the start of the first request to the last response."""
    if status != "200":
        sample.fail(f"HTTP {status}")
        return
    sample.latencies.append(seconds)
    sample.answers += 1
    sample.seconds = max(sample.seconds, start + seconds)


def main() -> None:
    """Measure and print the table."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the server is stopped
    print(", ".join(f"{name} {value}" for name, value in machine.machine().items()))
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        image = Path(folder) / "photo.jpg"
        image.write_bytes(photos.photo())
        server = running.enter_context(closing(common.lightbox().start(Path(folder) / "stack")))
        own = running.enter_context(client_process(common.post_image(MODEL), server.address))
        target = Target(server, image, f"{common.ATTRIBUTES}: {common.attributes(MODEL)}", Path(folder))
        tools: dict[str, Tool] = {
            "the benchmark's": lambda target, requests, clients: own(Load(requests, clients)),
            "hey": hey,
            "h2load": h2load,
        }
        for clients, requests in REQUESTS.items():
            samples: dict[str, list[Sample]] = {name: [] for name in tools}
            own(Load(requests, clients))  # warm
            for number in range(ROUNDS):
                say.progress(f"{clients} clients, round {number + 1} of {ROUNDS}")
                for name, tool in tools.items():
                    samples[name].append(tool(target, requests, clients))
            for name, rounds in samples.items():
                found = summarise(rounds, {})
                rows.append([str(clients), name, *(tables.number(found.get(key)) for key in COLUMNS.values())])
    print("\n".join(tables.table(["clients", "client", *COLUMNS], rows)))


if __name__ == "__main__":
    main()
