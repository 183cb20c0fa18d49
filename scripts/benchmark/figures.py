"""Summarises latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from benchmark.clients import Sample
from lightbox.tools.harness.percentiles import percentiles

PERCENTILES = (50, 90, 95, 99)


def summarise(rounds: Sequence[Sample], cpu: Mapping[str, float]) -> dict[str, Any]:
    """Return a variant's figures from its rounds and the CPU seconds of its server by role.

    Times are in milliseconds, bytes and CPU per request. ``p50`` and ``throughput`` are the medians of the rounds' own,
    so that one disturbed round has no effect; higher percentiles are over all latencies together.
    """
    latencies = [latency * 1000 for sample in rounds for latency in sample.latencies]
    answers = sum(sample.answers for sample in rounds)
    found: dict[str, Any] = {
        "answers": answers,
        "errors": sum(sample.errors for sample in rounds),
        "refused": sum(len(sample.refused) for sample in rounds),
        "first_error": next((sample.first_error for sample in rounds if sample.first_error), ""),
        "cpu_ms": {role: rounded(seconds * 1000 / answers) for role, seconds in cpu.items()} if answers else {},
    }
    if not latencies:
        return found
    rare = zip(PERCENTILES, percentiles(latencies, PERCENTILES), strict=True)
    return (
        found
        | {f"p{number}": rounded(value) for number, value in rare}
        | {
            "p50": rounded(median(median(sample.latencies) * 1000 for sample in rounds if sample.latencies)),
            "average": rounded(fmean(latencies)),
            "throughput": rounded(median(sample.rate for sample in rounds)),
            "bytes_sent": round(sum(sample.bytes_sent for sample in rounds) / answers),
            "bytes_received": round(sum(sample.bytes_received for sample in rounds) / answers),
            "client_cpu_ms": rounded(sum(sample.cpu_seconds for sample in rounds) * 1000 / answers),
            "stages": _stage_medians(rounds, answers),
        }
    )


def _stage_medians(rounds: Sequence[Sample], answers: int) -> dict[str, float]:
    """Return the median duration of each stage in milliseconds; a missing stage counts as zero."""
    stages: dict[str, list[float]] = {}
    for sample in rounds:
        for name, values in sample.stages.items():
            stages.setdefault(name, []).extend(values)
    return {name: rounded(median(values + [0.0] * (answers - len(values)))) for name, values in stages.items()}


def rounded(value: float) -> float:
    """Round to four significant digits: more would be noise."""
    return float(f"{value:.4g}")
