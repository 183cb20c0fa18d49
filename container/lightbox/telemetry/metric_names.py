"""Every metric: its name, what it says, its labels. Labels take values of a bounded set only."""

from __future__ import annotations

from typing import NamedTuple

METRICS_FOLDER = "metrics"
"""Name of the folder in the run directory that holds the workers' figures."""

QUEUE_FULL = "queue_full"
"""Why a request was rejected that would have been one too many."""


class Metric(NamedTuple):
    """The arguments that prometheus-client's classes take first. Counters are shown with ``_total`` at the end."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


# Counted by the workers.
REQUESTS = Metric("lightbox_requests", "Requests answered by the sidecar.", ("route", "model", "transport", "status"))
REJECTED = Metric("lightbox_rejected", "Requests answered with an error, by its code.", ("reason",))
SECONDS = Metric(
    "lightbox_request_seconds", "Time from a request's arrival at a worker to its answer.", ("model", "transport")
)
STAGES = Metric("lightbox_stage_seconds", "Time in one stage of a request.", ("stage", "transport"))
BYTES_IN = Metric("lightbox_request_bytes", "Bytes of request bodies.", ("route",))
BYTES_OUT = Metric("lightbox_response_bytes", "Bytes of answers.", ("route",))
IMAGES = Metric("lightbox_image_pixels", "Pixels of images that were decoded, by format.", ("format",))
IN_PROGRESS = Metric("lightbox_requests_in_progress", "Requests that workers have and have not answered.")
WORKER_STARTS = Metric("lightbox_worker_starts", "Workers that began to serve, restarted ones among them.")

# Known to the supervisor.
READY = Metric("lightbox_ready", "1 when requests can be served, as /ping says it.")
RESTARTS = Metric("lightbox_child_restarts", "Times that a process of ours ended and was started again.", ("process",))
MODEL_VERSIONS = Metric(
    "lightbox_model_versions", "Versions of a model in each state of the model server.", ("model", "server", "state")
)

COUNTERS = (REQUESTS, REJECTED, BYTES_IN, BYTES_OUT, WORKER_STARTS, RESTARTS)
HISTOGRAMS = (SECONDS, STAGES, IMAGES)
GAUGES = (IN_PROGRESS, READY, MODEL_VERSIONS)


def series_names() -> set[str]:
    """Return the names as Prometheus has them."""
    names = {metric.name for metric in GAUGES} | {f"{metric.name}_total" for metric in COUNTERS}
    return names | {f"{metric.name}_{end}" for metric in HISTOGRAMS for end in ("bucket", "sum", "count")}
