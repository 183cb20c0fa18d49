"""Overload: the rate and latency of responses, and the recovery time.

The phases are: at rest, at the peak, at twice the peak, afterwards, and beside slow clients.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from math import inf
from pathlib import Path
from statistics import mean, median

from benchmark import photos
from benchmark.clients import Load, Sample, client_process
from benchmark.clients.http import HttpClient
from benchmark.resources import Sizes, noting_memory
from benchmark.servers import Stack
from lightbox.harness.percentiles import percentile, percentiles
from lightbox.harness.tables import padded_table
from lightbox.machine.cores import available_cores
from soak.fixed import speak
from soak.good import ATTRIBUTES
from soak.run import memory_table

MODEL = "mobilenet_v2"
REST, BEFORE, LOADED, AFTER, SLOW = (
    "one client",
    "the peak",
    "twice as much offered",
    "the peak afterwards",
    "one client beside slow ones",
)
REST_REQUESTS, MANY_REQUESTS = 60, 1_000_000
THREADS_A_CORE = 8
"""Of gunicorn's workers, by default: so many requests of each core are in progress."""
TIMES_PEAK = 2.0
RECOVERED_IN_A_ROW, RECOVERED_WITHIN = 10, 1.5
"""A server has recovered when it answers a round of so many requests, each within so many times the p99 at rest."""
MOST_RECOVERY_SECONDS = 30.0
SLOW_EACH = 100
"""Slow clients of each kind: more than a stack of two workers has threads."""
SLOW_SETTLE_SECONDS, DRIP_SECONDS = 3.0, 0.5
LEAST_GOODPUT, DEADLINE_SECONDS, MOST_RECOVERY = 0.90, 30.0, 2.0
MOST_GROWTH = 1.05
"""Of all processes' memory together, from the first quarter of the overload to the last."""
MOST_SLOWDOWN = 2.0
"""How much slower the median request may be beside slow clients."""


@dataclass
class Measured:
    """Samples by phase, requests offered per second, recovery seconds, and memory during the overload.

    ``busy`` counts the refusals by the model server's own limit.
    """

    phases: dict[str, Sample] = field(default_factory=dict)
    offered: float = 0.0
    recovery: float = 0.0
    memory: list[Sizes] = field(default_factory=list)
    busy: int = 0


def overload(models: Path, folder: Path, seconds: float, peak_seconds: float, deadline: float) -> tuple[str, bool]:
    """Measure the peak, offer twice as much, measure the recovery; return the report and whether all bounds were met.

    ``deadline`` is a request's timeout in seconds. The peak, with a client for each worker thread, is measured
    before and after: a machine's speed drifts in minutes.
    """
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", MODEL), ("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", f"{deadline:g}"))
    client = HttpClient(photos.photo(640, 480), "image/jpeg")  # decoding it and the model take most of the time
    closed = Load(MANY_REQUESTS, clients=THREADS_A_CORE * available_cores(), most_seconds=peak_seconds)
    found = Measured()
    with (
        closing(Stack("overload", models, settings).start(folder)) as server,
        client_process(client, server.address) as caller,
    ):
        caller(Load(40, clients=4))
        found.phases[REST] = caller(Load(REST_REQUESTS))
        found.phases[BEFORE] = caller(closed)
        found.offered = TIMES_PEAK * rate(found.phases[BEFORE])
        with noting_memory(server.pid) as found.memory:
            load = Load(int(found.offered * seconds), rate=found.offered, most_seconds=2 * seconds)
            found.phases[LOADED] = caller(load)
        found.recovery = _recovery(caller, found.phases[REST])
        found.phases[AFTER] = caller(closed)
        with _slow_clients(server.address.port):
            found.phases[SLOW] = caller(Load(REST_REQUESTS))
        found.busy = server.server.log.count("the model server is busy")
    table, kept = report(found, deadline)
    return f"{MODEL}, {found.offered:.0f} requests/s offered for {seconds:g} s\n\n{table}", kept


def rate(sample: Sample) -> float:
    """Return the responses per second."""
    return sample.answers / sample.seconds


def _recovery(caller: Callable[[Load], Sample], rest: Sample) -> float:
    """Return the seconds until the start of the first round in which all requests are answered as at rest."""
    limit = RECOVERED_WITHIN * percentile(rest.latencies, 99)
    started, seconds, well = time.monotonic(), 0.0, False
    while not well and seconds < MOST_RECOVERY_SECONDS:
        seconds = time.monotonic() - started
        sample = caller(Load(RECOVERED_IN_A_ROW))
        well = sample.answers == RECOVERED_IN_A_ROW and max(sample.latencies) <= limit
    return seconds


@contextmanager
def _slow_clients(port: int) -> Iterator[None]:
    """Run many clients in the ``with`` block that send headers or bodies one byte at a time, or read slowly."""
    stop = threading.Event()
    post = "POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
    head = post.format("image/png", 1000).encode()
    rows = post.format("application/json", 11) + f"{ATTRIBUTES}: tfs-model-name=large\r\n\r\n[[1,2,3,4]]"
    kinds: tuple[tuple[bytes, bytes | int], ...] = ((head, b"X"), (head + b"\r\n", b"X"), (rows.encode(), 512))
    with ThreadPoolExecutor(SLOW_EACH * len(kinds)) as pool:
        for begin, step in kinds * SLOW_EACH:
            pool.submit(speak, port, begin, repeat(step), lambda: not stop.wait(DRIP_SECONDS))
        try:
            time.sleep(SLOW_SETTLE_SECONDS)  # the server accepts the slow connections before the measurement
            yield
        finally:
            stop.set()


def report(found: Measured, deadline: float) -> tuple[str, bool]:
    """Return the report and whether every bound was met; ``deadline`` is a request's timeout in seconds."""
    rest, loaded, slow = (found.phases[name] for name in (REST, LOADED, SLOW))
    share = rate(loaded) / mean(rate(found.phases[name]) for name in (BEFORE, AFTER))
    p99, unexpected = percentile(loaded.latencies, 99), loaded.errors - len(loaded.refused)
    # The first sample precedes the load, the last follows it.
    sizes = [sum(by_role.values()) for by_role in found.memory[1:-1]]
    quarter = max(1, len(sizes) // 4)
    growth = median(sizes[-quarter:]) / median(sizes[:quarter])
    slowdown = inf if slow.errors else percentile(slow.latencies, 50) / median(rest.latencies)
    rows = (
        ("goodput / peak", f"{share:.3f}", f"at least {LEAST_GOODPUT}", share >= LEAST_GOODPUT),
        ("p99 of accepted requests", _ms(p99), f"within the deadline, {deadline:g} s", p99 <= deadline),
        ("errors that are no 503", str(unexpected), "0", not unexpected),
        ("the model server's own limit shown", str(found.busy), "0", not found.busy),
        ("memory, last quarter / first", f"{growth:.3f}", f"at most {MOST_GROWTH}", growth <= MOST_GROWTH),
        ("recovery", f"{found.recovery:.2f} s", f"within {MOST_RECOVERY:g} s", found.recovery <= MOST_RECOVERY),
        (
            "p50 beside slow clients / at rest",
            f"{slowdown:.2f}",
            f"at most {MOST_SLOWDOWN:g}",
            slowdown <= MOST_SLOWDOWN,
        ),
    )
    lines = [
        *padded_table(("", "found", "wanted", "kept"), [(*row[:3], "yes" if row[3] else "NO") for row in rows]),
        "",
        *padded_table(
            ("phase", "answers/s", "p50", "p99", "503", "p99 of a 503", "client's part of the cores"),
            [(name, *_cells(sample)) for name, sample in found.phases.items()],
        ),
        "",
        *memory_table(found.memory),
        *(["", f"first refusal: {loaded.first_error}"] if loaded.first_error else []),
    ]
    return "\n".join(lines), all(row[3] for row in rows)


def _cells(sample: Sample) -> tuple[str, ...]:
    """Return the cells of a phase. The client shares the cores, and refused requests take its CPU time too."""
    p50, p99 = percentiles(sample.latencies, (50, 99))
    refused = _ms(percentile(sample.refused, 99)) if sample.refused else ""
    part = sample.cpu_seconds / sample.seconds / available_cores()
    return f"{rate(sample):.1f}", _ms(p50), _ms(p99), str(len(sample.refused)), refused, f"{part:.1%}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
