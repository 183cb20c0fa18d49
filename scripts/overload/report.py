"""The bounds, and whether they are kept."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median

from benchmark.clients.base import Sample
from lightbox.harness.percentiles import percentile
from lightbox.harness.tables import padded_table
from lightbox.machine.cores import available_cores
from overload.measure import Overload

LEAST_GOODPUT, DEADLINE_SECONDS, MOST_RECOVERY = 0.90, 30.0, 2.0
MOST_GROWTH = 0.05
"""Of all processes' memory together, from the first quarter of the overload to the last."""
MOST_SLOWDOWN = 2.0
"""How much slower the median request may be beside slow clients."""


def text(found: Overload, slow: Sample, busy: int, options: argparse.Namespace) -> tuple[str, bool]:
    """Return the report, and whether every bound is kept."""
    loaded, share = found.loaded, found.goodput / found.peak
    p99 = percentile(loaded.latencies, 99)
    deadline = float(dict(options.set).get("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", DEADLINE_SECONDS))
    growth = _growth(found.memory)
    slowdown = median(slow.latencies) / median(found.rest.latencies) if slow.latencies else float("inf")
    unexpected = loaded.errors - len(loaded.refused)
    rows = [
        ("goodput / peak", f"{share:.3f}", f"at least {LEAST_GOODPUT}", share >= LEAST_GOODPUT),
        ("p99 of accepted requests", _ms(p99), f"within the deadline, {deadline:g} s", p99 <= deadline),
        ("errors that are no 503", str(unexpected), "0", not unexpected),
        ("the model server's own limit shown", str(busy), "0", not busy),
        ("memory, last quarter / first", f"{1 + growth:.3f}", f"at most {1 + MOST_GROWTH}", growth <= MOST_GROWTH),
        ("recovery", f"{found.recovery:.2f} s", f"within {MOST_RECOVERY:g} s", found.recovery <= MOST_RECOVERY),
        (
            "p50 beside slow clients / at rest",
            f"{slowdown:.2f}",
            f"at most {MOST_SLOWDOWN:g}",
            slowdown <= MOST_SLOWDOWN and not slow.errors,
        ),
    ]
    lines = [
        f"{options.model}, {found.offered:.0f} requests/s offered for {options.seconds:g} s",
        "",
        *padded_table(("", "found", "wanted", "kept"), [(*row[:3], "yes" if row[3] else "NO") for row in rows]),
        "",
        _client(found),
        "",
        *padded_table(("phase", "answers/s", "p50", "p99", "503", "p99 of a 503"), _phases(found, slow)),
        "",
        *padded_table(("memory of all of a kind, MB", "first quarter", "last quarter"), _memory(found.memory)),
    ]
    if loaded.first_error:
        lines += ["", f"first refusal: {loaded.first_error}"]
    return "\n".join(lines), all(row[3] for row in rows)


def _client(found: Overload) -> str:
    """Return what part of the difference is the client's: it shares the cores, and what is refused costs it too."""
    cores = available_cores()
    peak, loaded = (
        sum(sample.cpu_seconds for sample in samples) / sum(sample.seconds for sample in samples) / cores
        for samples in (found.peaks, (found.loaded,))
    )
    share = found.goodput / (1 - loaded) / (found.peak / (1 - peak))
    return (
        f"The client took {peak:.1%} of the {cores} cores at the peak and {loaded:.1%} under overload. "
        f"Relative to the time that it left to the server, goodput / peak is {share:.3f}."
    )


def _phases(found: Overload, slow: Sample) -> list[tuple[str, ...]]:
    phases = {
        "one client": found.rest,
        **{f"{clients} clients": sample for clients, sample in found.searched.items()},
        "the best of them again": found.peaks[0],
        f"{found.offered:.0f}/s offered": found.loaded,
        "the best of them afterwards": found.peaks[1],
        "one client beside slow ones": slow,
    }
    return [
        (
            name,
            f"{sample.answers / sample.seconds:.1f}",
            _percentile(sample.latencies, 50),
            _percentile(sample.latencies, 99),
            str(len(sample.refused)),
            _percentile(sample.refused, 99),
        )
        for name, sample in phases.items()
    ]


def _percentile(values: Sequence[float], number: int) -> str:
    return _ms(percentile(values, number)) if values else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _quarters(sizes: Sequence[Mapping[str, int]], kind: str) -> tuple[float, float]:
    """Return the median of one kind's memory in the first and in the last quarter."""
    values = [size[kind] for size in sizes]
    count = max(1, len(values) // 4)
    return median(values[:count]), median(values[-count:])


def _growth(sizes: Sequence[Mapping[str, int]]) -> float:
    quarters = [_quarters(sizes, kind) for kind in sizes[0]]
    return sum(last for _, last in quarters) / sum(first for first, _ in quarters) - 1


def _memory(sizes: Sequence[Mapping[str, int]]) -> list[tuple[str, ...]]:
    rows = {kind: _quarters(sizes, kind) for kind in sizes[0] if any(size[kind] for size in sizes)}
    return [(kind, f"{first / 1e6:.0f}", f"{last / 1e6:.0f}") for kind, (first, last) in rows.items()]
