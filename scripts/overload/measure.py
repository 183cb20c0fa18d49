"""The phases of an overload: at rest, at the peak, at twice the peak, afterwards, and beside slow clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from benchmark.clients.base import Load, Sample
from benchmark.clients.http import HttpClient
from benchmark.clients.process import ClientProcess
from benchmark.servers.base import Running
from lightbox.harness.percentiles import percentile
from soak.good import ATTRIBUTES
from soak.stack import memory

REST, BEFORE, LOADED, AFTER, SLOW = (
    "one client",
    "the best of them again",
    "offered",
    "the best of them afterwards",
    "one client beside slow ones",
)
PEAK_CLIENTS = (4, 8, 16, 32)
REST_REQUESTS, MANY_REQUESTS = 60, 1_000_000
TIMES_PEAK = 2.0
PEAK_TIMES = 3
"""How many times longer than a run of the search the peak is measured: the best of several short runs is luck too."""
RECOVERED_IN_A_ROW, RECOVERED_WITHIN = 10, 1.5
"""Recovered is who answers so many requests in a row, each within so many times the p99 at rest."""
MOST_RECOVERY_SECONDS = 30.0
SLOW_EACH = 100
"""Slow clients of each kind: more than a stack of two workers has threads."""
SLOW_SETTLE_SECONDS, DRIP_SECONDS = 3.0, 0.5


@dataclass
class Overload:
    """What was measured: samples by phase, requests offered a second, seconds until it had recovered.

    Memory is bytes by kind of process, one entry a second of the overload.
    """

    phases: dict[str, Sample] = field(default_factory=dict)
    offered: float = 0.0
    recovery: float = 0.0
    memory: list[Mapping[str, int]] = field(default_factory=list)


def overload(server: Running, client: HttpClient, seconds: float, peak_seconds: float) -> Overload:
    """Find the peak, offer twice as much for some seconds, and see how it recovers.

    The peak is measured before and after: a machine's speed drifts in minutes.
    """
    found = Overload()
    with ClientProcess(client, server.address) as caller:
        caller.run(Load(40, clients=4))
        found.phases[REST] = caller.run(Load(REST_REQUESTS))
        searched: dict[int, Sample] = {}
        for clients in PEAK_CLIENTS:
            searched[clients] = caller.run(Load(MANY_REQUESTS, clients=clients, most_seconds=peak_seconds))
            found.phases[f"{clients} clients"] = searched[clients]
        best = max(searched, key=lambda clients: rate(searched[clients]))
        closed = Load(MANY_REQUESTS, clients=best, most_seconds=PEAK_TIMES * peak_seconds)
        found.phases[BEFORE] = caller.run(closed)
        found.offered = TIMES_PEAK * rate(found.phases[BEFORE])
        with _noting_memory(server, found.memory):
            load = Load(int(found.offered * seconds), rate=found.offered, most_seconds=2 * seconds)
            found.phases[LOADED] = caller.run(load)
        found.recovery = _recovery(caller, found.phases[REST])
        found.phases[AFTER] = caller.run(closed)
        with _slow_clients(server.address.port):
            found.phases[SLOW] = caller.run(Load(REST_REQUESTS))
    return found


def rate(*samples: Sample) -> float:
    """Return the answers a second of some samples together."""
    return sum(sample.answers for sample in samples) / sum(sample.seconds for sample in samples)


def _recovery(caller: ClientProcess, rest: Sample) -> float:
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


@contextmanager
def _noting_memory(server: Running, sizes: list[Mapping[str, int]]) -> Iterator[None]:
    """Note memory once a second within the ``with`` block."""
    stop = threading.Event()

    def note() -> None:
        while not stop.wait(1.0):
            sizes.append(memory(server.pid))

    with ThreadPoolExecutor(1) as pool:
        noting = pool.submit(note)
        try:
            yield
        finally:
            stop.set()
    noting.result()


@contextmanager
def _slow_clients(port: int) -> Iterator[None]:
    """Have many clients, within the ``with`` block, that send headers or bodies a byte at a time, or hardly read."""
    stop = threading.Event()
    post = "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
    head = post.format("image/png", 1000).encode()
    rows = post.format("application/json", 11) + f"{ATTRIBUTES}: tfs-model-name=large\r\n\r\n[[1,2,3,4]]"

    def client(begin: bytes, drip: bytes) -> None:
        with suppress(OSError), socket.socket() as connection:  # the server may have enough of it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            connection.settimeout(DRIP_SECONDS)
            connection.sendall(begin)
            while not stop.wait(DRIP_SECONDS):
                with suppress(TimeoutError):
                    connection.send(drip) if drip else connection.recv(512)

    kinds = ((head, b"X"), (head + b"\r\n", b"X"), (rows.encode(), b""))
    with ThreadPoolExecutor(SLOW_EACH * len(kinds)) as pool:
        for begin, drip in kinds * SLOW_EACH:
            pool.submit(client, begin, drip)
        try:
            time.sleep(SLOW_SETTLE_SECONDS)  # slow connections are taken before anything is measured
            yield
        finally:
            stop.set()
