"""All metrics, including those of the features, and the names of their series."""

from __future__ import annotations

from lightbox.features import FEATURES
from lightbox.telemetry.metrics import (
    BLOCKED_RELOADS,
    BYTES_IN,
    BYTES_OUT,
    IMAGES,
    IN_PROGRESS,
    MODEL_ENGINE,
    MODEL_VERSIONS,
    READY,
    REJECTED,
    REQUESTS,
    RESTARTS,
    SATURATION,
    SECONDS,
    STAGES,
    VERSION_NOT_SERVED,
    WORKER_STARTS,
)

COUNTERS = (
    *(REQUESTS, REJECTED, BYTES_IN, BYTES_OUT, WORKER_STARTS, RESTARTS, BLOCKED_RELOADS),
    *(metric for feature in FEATURES for metric in feature.counters),
)
HISTOGRAMS = (SECONDS, STAGES, IMAGES)
GAUGES = (
    *(IN_PROGRESS, READY, SATURATION, MODEL_VERSIONS, VERSION_NOT_SERVED, MODEL_ENGINE),
    *(metric for feature in FEATURES for metric in feature.gauges),
)


def series_names() -> set[str]:
    """Return the names in Prometheus' form."""
    names = {metric.name for metric in GAUGES} | {f"{metric.name}_total" for metric in COUNTERS}
    return names | {f"{metric.name}_{end}" for metric in HISTOGRAMS for end in ("bucket", "sum", "count")}
