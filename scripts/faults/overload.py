"""Overload: the rate and latency of responses, what a refusal costs, and the recovery time.

Lightbox has one core, the callers another. The phases are: at rest, at the peak, at two and five times the peak, 200
callers that repeat a refused request at once, at the peak again, and beside slow clients.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise, repeat
from math import inf
from pathlib import Path
from statistics import mean, median

from benchmark import photos
from benchmark.clients import Load, Sample, client_process
from benchmark.clients.http import HttpClient
from benchmark.models import link
from benchmark.resources import Sizes, cpu_seconds, noting_memory
from benchmark.servers import Address, Stack
from faults.fixed import speak
from faults.good import ATTRIBUTES
from lightbox.tools.harness.percentiles import percentile, percentiles
from lightbox.tools.harness.tables import padded_table

MODEL = "mobilenet_v2"
REST_REQUESTS, MANY_REQUESTS = 60, 1_000_000
TAKEN_A_CORE = 40
"""Requests that Lightbox has at once on one core, by default: 8 in progress and 32 that wait."""
TIMES_PEAK = (2.0, 5.0)
IMPATIENT = 200
RECOVERED_IN_A_ROW, RECOVERED_WITHIN = 10, 1.5
"""A server has recovered when it answers a round of so many requests, each within so many times the p99 at rest."""
MOST_RECOVERY_SECONDS = 30.0
SLOW_EACH = 100
"""Slow clients of each kind: more than a stack of two workers has threads."""
SLOW_SETTLE_SECONDS, DRIP_SECONDS = 3.0, 0.5
LEAST_GOODPUT, LEAST_GOODPUT_FAR_BEYOND, MOST_RECOVERY = 0.95, 0.9, 2.0
MOST_P99 = 2.0
"""How many times the p99 at the peak that of the answers may be which come under overload."""
MOST_REFUSAL_COST = 0.05
"""Processor time of a refusal, as a share of an answer's."""
REFUSING = ("nginx", "supervisor")
MOST_GROWTH = 1.05
"""Of all processes' memory together, from the first quarter of an overload to the last."""
MOST_SLOWDOWN = 2.0
"""How much slower the median request may be beside slow clients."""


def overload(models: Path, folder: Path, seconds: float, peak_seconds: float, deadline: float) -> tuple[str, bool]:
    """Measure the peak, offer more, measure the recovery; return the report and whether all bounds were met.

    ``deadline`` is a request's timeout in seconds. The peak, with as many clients as Lightbox takes at once, is
    measured before and after each load: a machine's speed drifts in minutes.
    """
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", MODEL), ("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", f"{deadline:g}"))
    client = HttpClient(photos.photo(640, 480), "image/jpeg")  # decoding it and the model take most of the time
    closed = Load(MANY_REQUESTS, clients=TAKEN_A_CORE, most_seconds=peak_seconds)
    server_core, own_core = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {own_core})
    link(folder / "overload_model" / MODEL, models / MODEL)
    within = ("taskset", "--cpu-list", str(server_core))
    stack = Stack("overload", folder / "overload_model", settings, within=within)
    with closing(stack.start(folder)) as server, client_process(client, server.address) as caller:
        caller(Load(40, clients=4))
        rest = caller(Load(REST_REQUESTS))
        before, at_peak = _with_cpu(server.pid, caller, closed)
        with noting_memory(server.pid) as memory:
            loads = {
                f"{times:g} times as much offered": Load(
                    int(times * before.rate * seconds), rate=times * before.rate, most_seconds=2 * seconds
                )
                for times in TIMES_PEAK
            }
            loads[f"{IMPATIENT} that repeat at once"] = Load(MANY_REQUESTS, IMPATIENT, most_seconds=seconds)
            loaded: dict[str, tuple[Sample, dict[str, float]]] = {}
            peaks = [before]
            for name, load in loads.items():
                loaded[name] = _with_cpu(server.pid, caller, load)
                peaks.append(caller(closed))
            caller(replace(load, most_seconds=peak_seconds))
            recovery = _recovery(caller, rest)
        # The refusals by the model server's own limit.
        busy = server.server.log.count("the model server is busy")
    # Beside it a model whose answers are large, for clients that read slowly.
    stack = Stack("slow clients", models, settings, within=within)
    with closing(stack.start(folder)) as server, client_process(client, server.address) as caller:
        caller(Load(40, clients=4))
        alone = caller(Load(REST_REQUESTS))
        with _slow_clients(server.address):
            slow = caller(Load(REST_REQUESTS))
    bounds = []
    for (name, (sample, cpu)), around in zip(loaded.items(), pairwise(peaks), strict=True):
        peak, peak_p99 = mean(one.rate for one in around), mean(percentile(one.latencies, 99) for one in around)
        least = LEAST_GOODPUT if sample is next(iter(loaded.values()))[0] else LEAST_GOODPUT_FAR_BEYOND
        share, slower = sample.responses / sample.answering / peak, percentile(sample.latencies, 99) / peak_p99
        cost = _refusal_cost(sample, cpu, before, at_peak)
        unexpected = sample.errors - len(sample.refused)
        bounds += [
            (f"{name}: goodput / peak", f"{share:.3f}", f"at least {least}", share >= least),
            (f"{name}: p99 / peak's", f"{slower:.2f}", f"at most {MOST_P99:g}", slower <= MOST_P99),
            (
                f"{name}: CPU, a refusal / an answer",
                f"{cost:.1%}",
                f"at most {MOST_REFUSAL_COST:.0%}",
                cost <= MOST_REFUSAL_COST,
            ),
            (f"{name}: p99", _ms(p99 := percentile(sample.latencies, 99)), f"at most {deadline:g} s", p99 <= deadline),
            (f"{name}: errors that are no 503", str(unexpected), "0", not unexpected),
        ]
    growth = _growth(memory)
    slowdown = inf if slow.errors else percentile(slow.latencies, 50) / median(alone.latencies)
    bounds += [
        ("the model server's own limit shown", str(busy), "0", not busy),
        ("memory, last quarter / first", f"{growth:.3f}", f"at most {MOST_GROWTH}", growth <= MOST_GROWTH),
        ("recovery", f"{recovery:.2f} s", f"within {MOST_RECOVERY:g} s", recovery <= MOST_RECOVERY),
        (
            "p50 beside slow clients / at rest",
            f"{slowdown:.2f}",
            f"at most {MOST_SLOWDOWN:g}",
            slowdown <= MOST_SLOWDOWN,
        ),
    ]
    phases = {
        "one client": rest,
        "the peak": before,
        **{name: sample for name, (sample, _) in loaded.items()},
        "the peak afterwards": peaks[-1],
        "one client, several models": alone,
        "one client beside slow ones": slow,
    }
    table = padded_table(("", "found", "wanted", "kept"), [(*row[:3], "yes" if row[3] else "NO") for row in bounds])
    lines = [f"{MODEL}, {seconds:g} s of each", "", *table, "", *_phase_table(phases), ""]
    lines += [f"first refusal: {next(iter(loaded.values()))[0].first_error}"]
    return "\n".join(lines), all(row[3] for row in bounds)


def _with_cpu(pid: int, caller: Callable[[Load], Sample], load: Load) -> tuple[Sample, dict[str, float]]:
    """Run a load; return also the CPU seconds that each role of the server took meanwhile."""
    before = cpu_seconds(pid)
    sample = caller(load)
    return sample, {role: used - before.get(role, 0.0) for role, used in cpu_seconds(pid).items()}


def _refusal_cost(sample: Sample, cpu: Mapping[str, float], peak: Sample, at_peak: Mapping[str, float]) -> float:
    """Return the CPU time of a refusal, in nginx and the supervisor, divided by that of an answer at the peak."""
    if not sample.refused:
        return 0.0
    for_answers = sample.responses * sum(at_peak[role] for role in REFUSING) / peak.responses
    of_a_refusal = (sum(cpu[role] for role in REFUSING) - for_answers) / len(sample.refused)
    return of_a_refusal / (sum(at_peak.values()) / peak.responses)


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
    """Return the lines of a table of phases; refused requests take the client's CPU time too."""
    rows = []
    for name, sample in phases.items():
        p50, p99 = percentiles(sample.latencies, (50, 99))
        refused = _ms(percentile(sample.refused, 99)) if sample.refused else ""
        part = sample.cpu_seconds / sample.seconds
        rows.append(
            (
                name,
                f"{sample.responses / sample.answering:.1f}",
                _ms(p50),
                _ms(p99),
                str(len(sample.refused)),
                refused,
                f"{part:.1%}",
            )
        )
    header = ("phase", "answers/s", "p50", "p99", "503", "p99 of a 503", "the client's core is used")
    return padded_table(header, rows)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
