"""All metrics by kind, including those of the features, and the names of their series."""

from __future__ import annotations

from write_reference import METRICS

COUNTERS, HISTOGRAMS, GAUGES = (
    [metric for metric in METRICS if metric.kind == kind] for kind in ("counter", "histogram", "gauge")
)


def series_names() -> set[str]:
    """Return the names in Prometheus' form."""
    names = {metric.name for metric in GAUGES} | {f"{metric.name}_total" for metric in COUNTERS}
    return names | {f"{metric.name}_{end}" for metric in HISTOGRAMS for end in ("bucket", "sum", "count")}
