"""The phases of an overload: at rest, at the peak, at twice the peak, afterwards, and beside slow clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmark.clients.base import Load, Sample
from benchmark.clients.http import HttpClient
from benchmark.clients.process import ClientProcess
from benchmark.servers.base import Running
from lightbox.harness.percentiles import percentile
from soak.processes import memory

PEAK_CLIENTS = (4, 8, 16, 32)
REST_REQUESTS = 60
TIMES_PEAK = 2.0
PEAK_TIMES = 3
"""How many times longer than a run of the search the peak is measured: the best of several short runs is luck too."""
RECOVERED_IN_A_ROW = 10
RECOVERED_WITHIN = 1.5
"""Recovered is who answers so many requests in a row, each within this many times the p99 at rest."""
MOST_RECOVERY_SECONDS = 30.0


@dataclass
class Overload:
    """What was measured; memory as bytes by kind of process, one entry a second.

    ``searched`` are short runs by number of clients; ``peaks`` are longer ones with the best number, right before the
    overload and after it.
    """

    rest: Sample
    searched: dict[int, Sample]
    peaks: tuple[Sample, Sample]
    loaded: Sample
    offered: float
    recovery: float
    memory: list[Mapping[str, int]] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """Answers a second of the best number of clients, before and after: a machine's speed drifts in minutes."""
        return sum(sample.answers for sample in self.peaks) / sum(sample.seconds for sample in self.peaks)

    @property
    def goodput(self) -> float:
        """Answers a second under overload."""
        return self.loaded.answers / self.loaded.seconds


def overload(server: Running, client: HttpClient, seconds: float, peak_seconds: float) -> Overload:
    """Find the peak, offer twice as much for some seconds, and see how it recovers."""
    with ClientProcess(client, server.address) as caller:
        caller.run(Load(40, clients=4))
        rest = caller.run(Load(REST_REQUESTS))
        searched = {
            clients: caller.run(Load(1_000_000, clients=clients, most_seconds=peak_seconds)) for clients in PEAK_CLIENTS
        }
        best = max(searched, key=lambda clients: searched[clients].answers / searched[clients].seconds)
        closed = Load(1_000_000, clients=best, most_seconds=PEAK_TIMES * peak_seconds)
        before = caller.run(closed)
        rate = TIMES_PEAK * before.answers / before.seconds
        with MemoryWatch(server) as watch:
            loaded = caller.run(Load(int(rate * seconds), rate=rate, most_seconds=2 * seconds))
        recovered = recovery(caller, rest)
        return Overload(rest, searched, (before, caller.run(closed)), loaded, rate, recovered, watch.sizes)


def recovery(caller: ClientProcess, rest: Sample) -> float:
    """Return the seconds until the first of several requests in a row that are answered as at rest began."""
    limit = RECOVERED_WITHIN * percentile(rest.latencies, 99)
    started = began = time.monotonic()
    in_a_row = 0
    while in_a_row < RECOVERED_IN_A_ROW and time.monotonic() - started < MOST_RECOVERY_SECONDS:
        before = time.monotonic()
        sample = caller.run(Load(1))
        well = bool(sample.answers) and sample.latencies[0] <= limit
        if well and not in_a_row:
            began = before
        in_a_row = in_a_row + 1 if well else 0
    return began - started if in_a_row else MOST_RECOVERY_SECONDS


class MemoryWatch:
    """Notes memory once a second within its ``with`` block."""

    def __init__(self, server: Running) -> None:
        self._pid = server.pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sizes: list[Mapping[str, int]] = []

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self.sizes.append(memory(self._pid))
