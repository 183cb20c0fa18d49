"""Many latencies to a few figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from benchmark.clients.base import Sample
from lightbox.harness.percentiles import percentiles

PERCENTILES = (50, 90, 95, 99)


def summarise(rounds: Sequence[Sample]) -> dict[str, object]:
    """Return the figures of a variant from its rounds; times in milliseconds, bytes and CPU per request.

    ``p50`` and ``throughput`` are the medians of the rounds' own, so that a disturbed round does not count;
    the rarer percentiles are of all latencies together.
    """
    latencies = [latency * 1000 for sample in rounds for latency in sample.latencies]
    answers = sum(sample.answers for sample in rounds)
    figures: dict[str, object] = {
        "answers": answers,
        "errors": sum(sample.errors for sample in rounds),
        "refused": sum(len(sample.refused) for sample in rounds),
        "first_error": next((sample.first_error for sample in rounds if sample.first_error), ""),
    }
    if not latencies:
        return figures
    figures |= {
        f"p{number}": rounded(value)
        for number, value in zip(PERCENTILES, percentiles(latencies, PERCENTILES), strict=True)
    }
    figures |= {
        "p50": rounded(median(round_p50s(rounds))),
        "average": rounded(fmean(latencies)),
        "throughput": rounded(median(sample.answers / sample.seconds for sample in rounds)),
        "round_p50": [rounded(value) for value in round_p50s(rounds)],
        "quantiles": [rounded(value) for value in percentiles(latencies, range(101))],
        "bytes_sent": round(sum(sample.bytes_sent for sample in rounds) / answers),
        "bytes_received": round(sum(sample.bytes_received for sample in rounds) / answers),
        "client_cpu_ms": rounded(sum(sample.cpu_seconds for sample in rounds) * 1000 / answers),
        "stages": stage_medians(rounds),
    }
    return figures


def round_p50s(rounds: Sequence[Sample]) -> list[float]:
    """Return the median latency of each round that has one, in milliseconds."""
    return [median(sample.latencies) * 1000 for sample in rounds if sample.latencies]


def stage_medians(rounds: Sequence[Sample]) -> dict[str, float]:
    """Return the median duration of each stage in milliseconds; in answers without a stage it took none."""
    stages: dict[str, list[float]] = {}
    for sample in rounds:
        for name, values in sample.stages.items():
            stages.setdefault(name, []).extend(values)
    answers = sum(sample.answers for sample in rounds)
    padded = {name: values + [0.0] * (answers - len(values)) for name, values in stages.items()}
    return {name: rounded(median(values)) for name, values in padded.items()}


def paired_ratio(rounds: Sequence[Sample], floor: Sequence[Sample]) -> float | None:
    """Return the median over the rounds of p50 divided by the floor's p50 in the same round."""
    ratios = [
        median(ours.latencies) / median(theirs.latencies)
        for ours, theirs in zip(rounds, floor, strict=True)
        if ours.latencies and theirs.latencies
    ]
    return rounded(median(ratios)) if ratios else None


def per_request(cpu: Mapping[str, float], answers: int) -> dict[str, float]:
    """Return CPU milliseconds per request by role."""
    return {role: rounded(seconds * 1000 / answers) for role, seconds in cpu.items()} if answers else {}


def rounded(value: float) -> float:
    """Round to four significant digits: more would claim what was not measured."""
    return float(f"{value:.4g}")
