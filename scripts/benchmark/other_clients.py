"""The benchmark's client beside two that others wrote: ``python -m benchmark.other_clients``

Debian's ``hey`` and ``h2load`` (package nghttp2-client) post the same photograph to the same endpoint, in turn with the
benchmark's own client, each in a process of its own. Prints a table: what a client reports, and its own CPU time.
"""

from __future__ import annotations

import csv
import io
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmark import machine, photos
from benchmark.clients.base import Load, Sample
from benchmark.clients.process import ClientProcess
from benchmark.scenarios import common
from benchmark.servers.base import Running
from lightbox.harness.tables import table
from lightbox.telemetry import say

ROUNDS, CLIENTS = 6, (1, 8)
REQUESTS = {1: 150, 8: 600}
MODEL = "mobilenet_v2"


@dataclass
class Target:
    """An endpoint, the file that is posted to it with a header of custom attributes, and a folder for logs."""

    running: Running
    image: Path
    attributes: str
    folder: Path

    @property
    def url(self) -> str:
        """Where images are posted."""
        return f"http://{self.running.address.host}:{self.running.address.port}/invocations"


Tool = Callable[[Target, int, int], Sample]
"""Sends so many requests by so many clients."""


def hey(target: Target, requests: int, clients: int) -> Sample:
    """Run hey, which starts as many connections as there are clients."""
    command = [
        "hey",
        "-n",
        str(requests),
        "-c",
        str(clients),
        "-m",
        "POST",
        "-D",
        str(target.image),
        "-T",
        common.IMAGE,
    ]
    sample, output = _run([*command, "-H", target.attributes, "-o", "csv", target.url])
    for row in csv.DictReader(io.StringIO(output)):
        _note(sample, row["status-code"], float(row["offset"]), float(row["response-time"]))
    return sample


def h2load(target: Target, requests: int, clients: int) -> Sample:
    """Run h2load with HTTP/1.1 and one thread."""
    log = target.folder / "h2load.log"
    log.unlink(missing_ok=True)
    command = ["h2load", "--h1", "-n", str(requests), "-c", str(clients), "-d", str(target.image), f"--log-file={log}"]
    sample, _ = _run([*command, "-H", f"content-type: {common.IMAGE}", "-H", target.attributes, target.url])
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    first = min(int(start) for start, _, _ in rows)
    for start, status, microseconds in rows:
        _note(sample, status, (int(start) - first) / 1e6, int(microseconds) / 1e6)
    return sample


def _run(command: list[str]) -> tuple[Sample, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a program that is named above
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


def _note(sample: Sample, status: str, start: float, seconds: float) -> None:
    """Note an answer; the run lasts from the first request's start to the last answer."""
    if status != "200":
        sample.fail(f"HTTP {status}")
        return
    sample.latencies.append(seconds)
    sample.answers += 1
    sample.seconds = max(sample.seconds, start + seconds)


@dataclass
class Reported:
    """What one client said of its rounds."""

    samples: list[Sample] = field(default_factory=list)

    def cells(self) -> list[str]:
        """Return medians of the rounds: requests/s, p50 and p99 in ms; the client's CPU in ms a request; failed."""
        rates = [sample.answers / sample.seconds for sample in self.samples]
        p50 = [float(np.percentile(sample.latencies, 50)) * 1000 for sample in self.samples]
        p99 = [float(np.percentile(sample.latencies, 99)) * 1000 for sample in self.samples]
        answers = sum(sample.answers for sample in self.samples)
        cpu = sum(sample.cpu_seconds for sample in self.samples) / answers * 1000
        values = [f"{statistics.median(values):.1f}" for values in (rates, p50, p99)]
        return [*values, f"{cpu:.2f}", str(sum(sample.errors for sample in self.samples))]


def main() -> None:
    """Measure and print the table."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the server is stopped
    rows = []
    print(", ".join(f"{name} {value}" for name, value in machine.machine().items()))
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "photo.jpg"
        image.write_bytes(photos.photo())
        running = common.lightbox().start(Path(folder) / "stack")
        try:
            target = Target(running, image, f"{common.ATTRIBUTES}: {common.attributes(MODEL)}", Path(folder))
            with ClientProcess(common.post_image(MODEL), running.address) as own:
                tools: dict[str, Tool] = {
                    "the benchmark's": lambda target, requests, clients: own.run(Load(requests, clients)),
                    "hey": hey,
                    "h2load": h2load,
                }
                for clients in CLIENTS:
                    reported = {name: Reported() for name in tools}
                    own.run(Load(REQUESTS[clients], clients))  # warm
                    for number in range(ROUNDS):
                        say.progress(f"{clients} clients, round {number + 1} of {ROUNDS}")
                        for name, tool in tools.items():
                            reported[name].samples.append(tool(target, REQUESTS[clients], clients))
                    rows += [[str(clients), name, *said.cells()] for name, said in reported.items()]
        finally:
            running.stop()
    header = ["clients", "client", "requests/s", "p50 ms", "p99", "the client's CPU, ms a request", "failed"]
    print("\n".join(table(header, rows, "rlr")))


if __name__ == "__main__":
    main()
