"""The bounds, and whether they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmark.clients.base import Sample
from lightbox.harness.percentiles import percentile
from lightbox.harness.tables import padded_table
from lightbox.machine.cores import available_cores
from overload.measure import AFTER, BEFORE, LOADED, REST, SLOW, Overload, rate

LEAST_GOODPUT, DEADLINE_SECONDS, MOST_RECOVERY = 0.90, 30.0, 2.0
MOST_GROWTH = 1.05
"""Of all processes' memory together, from the first quarter of the overload to the last."""
MOST_SLOWDOWN = 2.0
"""How much slower the median request may be beside slow clients."""


def text(found: Overload, busy: int, deadline: float) -> tuple[str, bool]:
    """Return the report, and whether every bound is kept.

    ``busy`` is how often the model server's own limit showed, ``deadline`` that of a request in seconds.
    """
    rest, loaded, slow = (found.phases[name] for name in (REST, LOADED, SLOW))
    peaks = found.phases[BEFORE], found.phases[AFTER]
    share, p99 = rate(loaded) / rate(*peaks), percentile(loaded.latencies, 99)
    unexpected = loaded.errors - len(loaded.refused)
    memory = {kind: _quarters([sizes[kind] for sizes in found.memory]) for kind in found.memory[0]}
    first, last = (sum(quarters) for quarters in zip(*memory.values(), strict=True))
    slowdown = median(slow.latencies) / median(rest.latencies) if slow.latencies and not slow.errors else float("inf")
    rows = [
        ("goodput / peak", f"{share:.3f}", f"at least {LEAST_GOODPUT}", share >= LEAST_GOODPUT),
        ("p99 of accepted requests", _ms(p99), f"within the deadline, {deadline:g} s", p99 <= deadline),
        ("errors that are no 503", str(unexpected), "0", not unexpected),
        ("the model server's own limit shown", str(busy), "0", not busy),
        ("memory, last quarter / first", f"{last / first:.3f}", f"at most {MOST_GROWTH}", last <= MOST_GROWTH * first),
        ("recovery", f"{found.recovery:.2f} s", f"within {MOST_RECOVERY:g} s", found.recovery <= MOST_RECOVERY),
        (
            "p50 beside slow clients / at rest",
            f"{slowdown:.2f}",
            f"at most {MOST_SLOWDOWN:g}",
            slowdown <= MOST_SLOWDOWN,
        ),
    ]
    # The client shares the cores, and what is refused costs it too.
    left = [1 - _share_of_cores(*samples) for samples in (peaks, (loaded,))]
    names = {LOADED: f"{found.offered:.0f}/s offered"}
    phases = [(names.get(name, name), *_told(sample)) for name, sample in found.phases.items()]
    lines = [
        *padded_table(("", "found", "wanted", "kept"), [(*row[:3], "yes" if row[3] else "NO") for row in rows]),
        "",
        f"The client took {1 - left[0]:.1%} of the {available_cores()} cores at the peak and {1 - left[1]:.1%} under "
        f"overload. Relative to the time that it left to the server, goodput / peak is "
        f"{share * left[0] / left[1]:.3f}.",
        "",
        *padded_table(("phase", "answers/s", "p50", "p99", "503", "p99 of a 503"), phases),
        "",
        *padded_table(
            ("memory of all of a kind, MB", "first quarter", "last quarter"),
            [(kind, *(f"{size / 1e6:.0f}" for size in sizes)) for kind, sizes in memory.items() if any(sizes)],
        ),
        *(["", f"first refusal: {loaded.first_error}"] if loaded.first_error else []),
    ]
    return "\n".join(lines), all(row[3] for row in rows)


def _share_of_cores(*samples: Sample) -> float:
    """Return the part of the cores' time that the client took."""
    seconds = sum(sample.seconds for sample in samples)
    return sum(sample.cpu_seconds for sample in samples) / seconds / available_cores()


def _told(sample: Sample) -> tuple[str, ...]:
    p50, p99 = (_percentile(sample.latencies, number) for number in (50, 99))
    return f"{rate(sample):.1f}", p50, p99, str(len(sample.refused)), _percentile(sample.refused, 99)


def _percentile(values: Sequence[float], number: int) -> str:
    return _ms(percentile(values, number)) if values else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _quarters(values: Sequence[int]) -> tuple[float, float]:
    """Return the median of the first and of the last quarter."""
    count = max(1, len(values) // 4)
    return median(values[:count]), median(values[-count:])
