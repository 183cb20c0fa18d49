"""Summarises latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmark.clients import Sample
from lightbox.tools.harness.percentiles import percentile


def summarise(rounds: Sequence[Sample], cpu: Mapping[str, float]) -> dict[str, Any]:
    """Return a variant's figures from its rounds and the CPU seconds of its server by role.

    Times are in milliseconds, bytes and CPU per request. ``p50`` and ``throughput`` are the medians of the rounds' own,
    so that one disturbed round has no effect; ``p99`` is over all latencies together.
    """
    latencies = [latency * 1000 for sample in rounds for latency in sample.latencies]
    responses = sum(sample.responses for sample in rounds)
    found: dict[str, Any] = {
        "answers": responses,
        "errors": sum(sample.errors for sample in rounds),
        "refused": sum(len(sample.refused) for sample in rounds),
        "first_error": next((sample.first_error for sample in rounds if sample.first_error), ""),
        "cpu_ms": {role: rounded(seconds * 1000 / responses) for role, seconds in cpu.items()} if responses else {},
    }
    if not latencies:
        return found
    return found | {
        "p50": rounded(median(median(sample.latencies) * 1000 for sample in rounds if sample.latencies)),
        "p99": rounded(percentile(latencies, 99)),
        "throughput": rounded(median(sample.rate for sample in rounds)),
        "bytes_sent": round(sum(sample.bytes_sent for sample in rounds) / responses),
    }


def rounded(value: float) -> float:
    """Round to four significant digits: more would be noise."""
    return float(f"{value:.4g}")
