"""Overload: the rate and latency of responses, and the recovery time.

The phases are: at rest, at the peak, at twice the peak, afterwards, and beside slow clients.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import repeat
from math import inf
from pathlib import Path
from statistics import mean, median

from benchmark import photos
from benchmark.clients import Load, Sample, client_process
from benchmark.clients.http import HttpClient
from benchmark.resources import Sizes, noting_memory
from benchmark.servers import Address, Stack
from faults.fixed import speak
from faults.good import ATTRIBUTES
from lightbox.model_runtime.cores import available_cores
from lightbox.tools.harness.percentiles import percentile, percentiles
from lightbox.tools.harness.tables import padded_table

MODEL = "mobilenet_v2"
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
LEAST_GOODPUT, MOST_RECOVERY = 0.90, 2.0
MOST_GROWTH = 1.05
"""Of all processes' memory together, from the first quarter of the overload to the last."""
MOST_SLOWDOWN = 2.0
"""How much slower the median request may be beside slow clients."""


def overload(models: Path, folder: Path, seconds: float, peak_seconds: float, deadline: float) -> tuple[str, bool]:
    """Measure the peak, offer twice as much, measure the recovery; return the report and whether all bounds were met.

    ``deadline`` is a request's timeout in seconds. The peak, with a client for each worker thread, is measured
    before and after: a machine's speed drifts in minutes.
    """
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", MODEL), ("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", f"{deadline:g}"))
    client = HttpClient(photos.photo(640, 480), "image/jpeg")  # decoding it and the model take most of the time
    closed = Load(MANY_REQUESTS, clients=THREADS_A_CORE * available_cores(), most_seconds=peak_seconds)
    with (
        closing(Stack("overload", models, settings).start(folder)) as server,
        client_process(client, server.address) as caller,
    ):
        caller(Load(40, clients=4))
        rest, before = caller(Load(REST_REQUESTS)), caller(closed)
        offered = TIMES_PEAK * before.rate
        with noting_memory(server.pid) as memory:
            loaded = caller(Load(int(offered * seconds), rate=offered, most_seconds=2 * seconds))
        recovery = _recovery(caller, rest)
        after = caller(closed)
        with _slow_clients(server.address):
            slow = caller(Load(REST_REQUESTS))
        # The refusals by the model server's own limit.
        busy = server.server.log.count("the model server is busy")
    share, p99 = loaded.rate / mean((before.rate, after.rate)), percentile(loaded.latencies, 99)
    unexpected, growth = loaded.errors - len(loaded.refused), _growth(memory)
    slowdown = inf if slow.errors else percentile(slow.latencies, 50) / median(rest.latencies)
    bounds = (
        ("goodput / peak", f"{share:.3f}", f"at least {LEAST_GOODPUT}", share >= LEAST_GOODPUT),
        ("p99 of accepted requests", _ms(p99), f"within the deadline, {deadline:g} s", p99 <= deadline),
        ("errors that are no 503", str(unexpected), "0", not unexpected),
        ("the model server's own limit shown", str(busy), "0", not busy),
        ("memory, last quarter / first", f"{growth:.3f}", f"at most {MOST_GROWTH}", growth <= MOST_GROWTH),
        ("recovery", f"{recovery:.2f} s", f"within {MOST_RECOVERY:g} s", recovery <= MOST_RECOVERY),
        (
            "p50 beside slow clients / at rest",
            f"{slowdown:.2f}",
            f"at most {MOST_SLOWDOWN:g}",
            slowdown <= MOST_SLOWDOWN,
        ),
    )
    phases = {
        "one client": rest,
        "the peak": before,
        "twice as much offered": loaded,
        "the peak afterwards": after,
        "one client beside slow ones": slow,
    }
    table = padded_table(("", "found", "wanted", "kept"), [(*row[:3], "yes" if row[3] else "NO") for row in bounds])
    lines = [f"{MODEL}, {offered:.0f} requests/s offered for {seconds:g} s", "", *table, "", *_phase_table(phases), ""]
    lines += [f"first refusal: {loaded.first_error}"]
    return "\n".join(lines), all(row[3] for row in bounds)


def _growth(memory: Sequence[Sizes]) -> float:
    """Return the memory of the last quarter of the load divided by that of the first."""
    # The first sample precedes the load, the last follows it.
    sizes = [sum(by_role.values()) for by_role in memory[1:-1]]
    quarter = max(1, len(sizes) // 4)
    return median(sizes[-quarter:]) / median(sizes[:quarter])


def _recovery(caller: Callable[[Load], Sample], rest: Sample) -> float:
    """Return the seconds until the start of the first round in which all requests are answered as at rest."""
    limit = RECOVERED_WITHIN * percentile(rest.latencies, 99)
    started, seconds, well = time.monotonic(), 0.0, False
    while not well and seconds < MOST_RECOVERY_SECONDS:
        seconds = time.monotonic() - started
        sample = caller(Load(RECOVERED_IN_A_ROW))
        well = sample.responses == RECOVERED_IN_A_ROW and max(sample.latencies) <= limit
    return seconds


@contextmanager
def _slow_clients(address: Address) -> Iterator[None]:
    """Run many clients in the ``with`` block that send headers or bodies one byte at a time, or read slowly."""
    stop = threading.Event()
    head = HttpClient(body := bytes(1000), "image/png").request(address).removesuffix(body)
    large = HttpClient(b"[[1,2,3,4]]", "application/json", headers={ATTRIBUTES: "tfs-model-name=large"})
    kinds = ((head.removesuffix(b"\r\n"), b"X"), (head, b"X"), (large.request(address), 512))
    with ThreadPoolExecutor(SLOW_EACH * len(kinds)) as pool:
        for begin, step in kinds * SLOW_EACH:
            pool.submit(speak, address.port, begin, repeat(step), DRIP_SECONDS, stop)
        try:
            time.sleep(SLOW_SETTLE_SECONDS)  # the server accepts the slow connections before the measurement
            yield
        finally:
            stop.set()


def _phase_table(phases: Mapping[str, Sample]) -> list[str]:
    """Return the lines of a table of phases. The client shares the cores; refused requests take its CPU time too."""
    rows = []
    for name, sample in phases.items():
        p50, p99 = percentiles(sample.latencies, (50, 99))
        refused = _ms(percentile(sample.refused, 99)) if sample.refused else ""
        part = sample.cpu_seconds / sample.seconds / available_cores()
        rows.append((name, f"{sample.rate:.1f}", _ms(p50), _ms(p99), str(len(sample.refused)), refused, f"{part:.1%}"))
    header = ("phase", "answers/s", "p50", "p99", "503", "p99 of a 503", "client's part of the cores")
    return padded_table(header, rows)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
