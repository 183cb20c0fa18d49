"""Every metric: name, description, labels. Labels have bounded sets of values."""

from __future__ import annotations

import itertools
import json
import os
import struct
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from typing_extensions import override

from lightbox.base.machine.shared_files import SharedCounters, hold, shared_numbers
from lightbox.base.request_context import QUEUE, TOTAL
from lightbox.base.telemetry.logs import FinishedRequest, Observer

METRICS_FOLDER = "metrics"
"""The folder in the run directory with the workers' figures."""

QUEUE_FULL = "queue_full"
"""The reason of a rejection for too many requests."""
_KINDS = ("counter", "histogram", "gauge_livesum")
"""The names of prometheus-client's files with the figures of handlers."""
_OWN = "lightbox"
"""In the names of the files with our own figures: the first word is the kind for prometheus-client, too."""
FILE_BYTES = 1 << 18
"""Initial size of each file: enough for a few models. It grows when full."""
MOST_MODELS = 100
"""Models with figures of their own in multi-model mode; further ones share one label."""
OTHER = "other"
NONE = ""


class Metric(NamedTuple):
    """A metric as ``/metrics`` describes it. There a counter has the suffix ``_total``."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    help: str
    labels: tuple[str, ...] = ()


# Counted by the workers.
REQUESTS = Metric(
    "counter", "lightbox_requests", "Requests that a worker answered.", ("route", "model", "transport", "status")
)
REJECTED = Metric("counter", "lightbox_rejected", "Requests answered with an error, by its code.", ("reason",))
SECONDS = Metric(
    "histogram",
    "lightbox_request_seconds",
    "Time from the arrival of a request to its response, including the wait for a thread.",
    ("model", "transport"),
)
STAGES = Metric(
    "histogram",
    "lightbox_stage_seconds",
    "Time of each stage of a request, as in Server-Timing.",
    ("stage", "transport"),
)
BYTES_IN = Metric("counter", "lightbox_request_bytes", "Size of request bodies in bytes.", ("route",))
BYTES_OUT = Metric("counter", "lightbox_response_bytes", "Size of response bodies in bytes.", ("route",))
IMAGES = Metric("histogram", "lightbox_image_pixels", "Pixels of decoded images.", ("format",))
WORKER_STARTS = Metric(
    "counter", "lightbox_worker_starts", "Starts and restarts of gunicorn workers and of the gRPC front."
)

# Known to the supervisor.
IN_PROGRESS = Metric("gauge", "lightbox_requests_in_progress", "Requests in progress in all workers.")
READY = Metric("gauge", "lightbox_ready", "1 if /ping returns 200, else 0.")
SATURATION = Metric(
    "gauge",
    "lightbox_saturation",
    "Requests in progress and waiting, divided by workers x threads, from 0 to 1: of the fullest share.",
)
MODEL_REQUESTS = Metric(
    "gauge",
    "lightbox_model_requests",
    "Requests of each model in progress and waiting, if models have shares.",
    ("model",),
)
MODEL_RUNNING = Metric("gauge", "lightbox_model_running", "Those of them that are in progress.", ("model",))
MODEL_REFUSED = Metric(
    "counter", "lightbox_model_refused", "Requests refused because of their model's share.", ("model",)
)
RESTARTS = Metric("counter", "lightbox_child_restarts", "Restarts of a process that ended.", ("process",))
HANGS = Metric(
    "counter",
    "lightbox_hangs",
    "Processes killed because they did not answer, or model servers because they accepted no loads and unloads.",
    ("process",),
)
LOG_LINES_DROPPED = Metric(
    "counter",
    "lightbox_log_lines_dropped",
    "Log lines dropped because stderr was full, closed or failed, or because a process or a handler wrote too many.",
)
MODEL_VERSIONS = Metric(
    "gauge",
    "lightbox_model_versions",
    "Versions of each model by their state in the model server.",
    ("model", "server", "state"),
)
BUILD = Metric("gauge", "lightbox_build_info", "1, with the version of Lightbox.", ("version",))
MEMORY = Metric(
    "gauge",
    "lightbox_process_resident_memory_bytes",
    "Memory of each process and its workers in bytes; memory that several share counts for each.",
    ("process",),
)
CPU = Metric("counter", "lightbox_process_cpu_seconds", "Processor time of each process and its workers.", ("process",))
VERSION_NOT_SERVED = Metric(
    "gauge",
    "lightbox_version_not_served",
    "1 for each version on disk that is not served: its `files` cannot be used yet, it is `incompatible` with the one "
    "that answers, or its `load` or first `probe` failed. The log has the sentence.",
    ("model", "version", "reason"),
)
MODEL_ENGINE = Metric(
    "gauge",
    "lightbox_model_engine",
    "1 for the engine that runs a signature.",
    ("model", "version", "signature", "engine"),
)

SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PIXELS_BUCKETS = (1e4, 5e4, 1e5, 2.5e5, 5e5, 1e6, 2e6, 4e6, 8e6, 16e6, 32e6)


_FIRST, _DOUBLE = 8, 8
"""Bytes before the first entry of a file of figures, and of a number."""


class Series:
    """The figures of one kind of metric, a number for each name and labels, in a file that prometheus-client reads.

    It has the bytes in use, and entries: the length of a text, the text, padding, the number, and a time, here 0.
    prometheus-client takes ten calls of functions to add to a number, and a request adds to two dozen. Safe to use from
    one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        from prometheus_client.mmap_dict import MmapedDict

        self._path = path
        self._map(max(FILE_BYTES, path.stat().st_size if path.exists() else 0))
        self._used[0] = self._used[0] or _FIRST
        entries = MmapedDict.read_all_values_from_file(path)  # type: ignore[no-untyped-call]
        self._places: dict[str, int] = {text: at // _DOUBLE for text, _, _, at in entries}

    def _map(self, size: int) -> None:
        whole = shared_numbers(self._path, size // _DOUBLE).cast("B")
        self._bytes, self._used, self.numbers = whole, whole[:4].cast("i"), whole.cast("d")

    def place(self, metric: Metric, labels: Sequence[str], suffix: str, **more: str) -> int:
        """Return the place of a number in ``numbers``, which may be another object then. Raises OSError.

        ``more`` are further labels.
        """
        from prometheus_client.mmap_dict import mmap_key

        names, values = [*metric.labels, *more], [*labels, *more.values()]
        text = mmap_key(metric.name, metric.name + suffix, names, values, metric.help)
        if text not in self._places:
            key, start = text.encode(), self._used[0]
            padded = len(key) + _DOUBLE - (len(key) + 4) % _DOUBLE
            entry = struct.pack(f"i{padded}sdd", len(key), key.ljust(padded), 0.0, 0.0)
            end = start + len(entry)
            if end > len(self._bytes):
                self._map(2 * len(self._bytes))
            self._bytes[start:end] = entry
            self._used[0] = end  # last, as the file may be read at any moment
            self._places[text] = end // _DOUBLE - 2
        return self._places[text]

    def labels(self, name: str) -> set[str]:
        """Return all values of a label."""
        return {value for text in self._places if (value := json.loads(text)[2].get(name))}


class WorkerMetrics(Observer):
    """Counts the requests of this process. ``models`` are those known from the start."""

    def __init__(self, folder: Path, models: Iterable[str]) -> None:
        slot, self._held = claim_slot(folder)
        # prometheus-client reads it when it makes a file; a handler's own metrics then appear in /metrics too.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        # Late: only with metrics, and after the variable is set.
        from prometheus_client import values

        values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]
        for kind in _KINDS:
            _allocate(folder / f"{kind}_{slot}.db")
        self._lock = threading.Lock()
        self._counters = Series(folder / f"counter_{_OWN}_{slot}.db")
        self._histograms = Series(folder / f"histogram_{_OWN}_{slot}.db")
        self._models = set(models) | self._counters.labels("model")
        self._most_models = max(len(self._models), MOST_MODELS)
        # Places by labels: caches that grow with the series.
        self._requests = cache(partial(self._counter, REQUESTS))
        self._rejected = cache(partial(self._counter, REJECTED))
        self._bytes_in = cache(partial(self._counter, BYTES_IN))
        self._bytes_out = cache(partial(self._counter, BYTES_OUT))
        self._seconds = cache(partial(self._histogram, SECONDS, SECONDS_BUCKETS))
        self._stages = cache(partial(self._histogram, STAGES, SECONDS_BUCKETS))
        self._images = cache(partial(self._histogram, IMAGES, PIXELS_BUCKETS))
        self._add(self._counter(WORKER_STARTS), 1)

    def _counter(self, metric: Metric, *labels: str) -> int:
        return self._counters.place(metric, labels, "_total")

    def _histogram(self, metric: Metric, buckets: Sequence[float], *labels: str) -> Sequence[int]:
        """Return the places of the numbers of values up to each of ``buckets``, of those above, and of their sum."""
        from prometheus_client.utils import floatToGoString

        ends = [*map(floatToGoString, buckets), "+Inf"]
        places = [self._histograms.place(metric, labels, "_bucket", le=end) for end in ends]
        return [*places, self._histograms.place(metric, labels, "_sum")]

    def _add(self, place: int, number: int) -> None:
        self._counters.numbers[place] += number

    def _observe(self, places: Sequence[int], buckets: Sequence[float], value: float) -> None:
        numbers = self._histograms.numbers
        numbers[places[bisect_left(buckets, value)]] += 1
        numbers[places[-1]] += value

    @override
    def responded(self, request: FinishedRequest) -> None:
        context, route = request.context, request.route
        with suppress(OSError), self._lock:  # a full disk does not fail a request
            model, transport = self._model(context.model), context.transport or NONE
            self._add(self._requests(route, model, transport, str(request.status)), 1)
            if request.error_code is not None:
                self._add(self._rejected(request.error_code), 1)
            self._add(self._bytes_in(route), request.bytes_in)
            self._add(self._bytes_out(route), request.bytes_out)
            if context.model is None:
                return
            for stage, seconds in context.durations().items():
                places = self._seconds(model, transport) if stage == TOTAL else self._stages(stage, transport)
                self._observe(places, SECONDS_BUCKETS, seconds)
            for image_format, pixels in context.images:
                self._observe(self._images(image_format), PIXELS_BUCKETS, pixels)

    def _model(self, name: str | None) -> str:
        """Return a model's label; names are from the catalogue, and bounded if that changes."""
        if name is None:
            return NONE
        if name not in self._models:
            if len(self._models) >= self._most_models:
                return OTHER
            self._models.add(name)
        return name


def claim_slot(folder: Path) -> tuple[int, int]:
    """Return the lowest number that no living process has in this folder, and the descriptor that holds it.

    The kernel releases it at the process's end, in all cases.
    """
    folder.mkdir(exist_ok=True)
    for slot in itertools.count():
        if (descriptor := hold(folder / f"{slot}.lock")) is not None:
            return slot, descriptor
    raise AssertionError("numbers do not end")


def _allocate(path: Path) -> None:
    """Allocate the space of a mapped file: on a full disk, a write to it would crash the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
    finally:
        os.close(descriptor)


PARTS: Mapping[str, tuple[str, ...]] = {
    "queue": (QUEUE, "wait"),
    "compute_input": ("session", "decode", "preprocess", "encode"),
    "compute_infer": ("predict", "handler"),
    "compute_output": ("decode_response", "postprocess"),
}
"""The stages of Triton's durations; "success", that of a whole request, includes the others."""
OUTCOMES = ("success", "fail")
_COLUMNS = (*(f"{outcome}_{what}" for outcome in OUTCOMES for what in ("count", "ns")), *PARTS, "last_ms")
_SUCCESS, _FAIL, _LAST = (_COLUMNS.index(name) for name in ("success_count", "fail_count", "last_ms"))
_COLUMN_OF = {stage: _COLUMNS.index(part) for part, stages in PARTS.items() for stage in stages}
_COUNTS_FOLDER, _MAPPED_COUNTS = "counts_of_versions", 128


class VersionCounts(Observer):
    """Counts the predictions of each version of a model, and sums the time of their stages.

    Each process has a row of its own in a version's file. Predictions that ended before a version was chosen are not
    counted, nor are those with an unknown version: a handler's own, and TensorFlow Serving's over gRPC.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._slot, self._held = claim_slot(run_dir / _COUNTS_FOLDER)
        self._lock = threading.Lock()
        self._row = lru_cache(_MAPPED_COUNTS)(self._map)

    @override
    def responded(self, request: FinishedRequest) -> None:
        context = request.context
        if request.method != "POST" or context.model is None or context.version is None:
            return
        durations, is_success = context.durations(), request.status < 400
        with suppress(OSError), self._lock:  # a full disk does not fail a request
            row = self._row(context.model, context.version)
            count = _SUCCESS if is_success else _FAIL
            row[count] += 1
            row[count + 1] += int(durations[TOTAL] * 1e9)
            for stage, seconds in durations.items() if is_success else ():
                if stage in _COLUMN_OF:
                    row[_COLUMN_OF[stage]] += int(seconds * 1e9)
            row[_LAST] = time.time_ns() // 1_000_000

    def _map(self, model: str, version: int) -> memoryview[Any]:
        path = _counts_file(self._run_dir, model, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        return SharedCounters(path, *_COLUMNS).row(self._slot)


def read_counts(run_dir: Path, model: str, version: int) -> dict[str, int]:
    """Return the counts of a version in all processes, including ended ones.

    For each of OUTCOMES the count and the nanoseconds, as ``success_count`` and ``success_ns``; for each of PARTS the
    nanoseconds of successes; and ``last_ms``, the end of the last prediction in milliseconds since 1970, 0 for none.
    """
    columns = SharedCounters(_counts_file(run_dir, model, version), *_COLUMNS).read()
    return {name: sum(column) for name, column in columns.items()} | {"last_ms": max(columns["last_ms"], default=0)}


def _counts_file(run_dir: Path, model: str, version: int) -> Path:
    return run_dir / _COUNTS_FOLDER / "models" / model / str(version)


_FOLDER = "requests_here"
_HERE = ("process", "here", "in_progress")


def count_requests(run_dir: Path) -> Callable[[int, int], None]:
    """Return the function that writes the number of this process's requests, and of those in progress."""
    slot, _ = claim_slot(run_dir / _FOLDER)
    row = SharedCounters(run_dir / _FOLDER / "table", *_HERE).row(slot)

    def write(here: int, in_progress: int) -> None:
        row[1], row[2] = here, in_progress

    write(0, 0)  # clears the row of the previous process
    row[0] = os.getpid()
    return write


def requests_of_all(run_dir: Path) -> tuple[int, int]:
    """Return the requests of all processes, and those in progress; a killed process has none."""
    rows = zip(*SharedCounters(run_dir / _FOLDER / "table", *_HERE).read().values(), strict=True)
    living = [
        (here, in_progress) for process, here, in_progress in rows if here > 0 and Path(f"/proc/{process}").exists()
    ]
    return sum(here for here, _ in living), sum(in_progress for _, in_progress in living)
