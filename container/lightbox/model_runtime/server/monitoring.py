"""Counters and histograms with tensorflow_model_server's names, as a Prometheus page."""

from __future__ import annotations

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from typing_extensions import override

MAX_LABEL_SETS = 1000
OTHER = "other"
"""The label of models that were never loaded, as clients choose their names, and of further label sets."""


class Metric:
    """The common part of both kinds: a name such as ":tensorflow:serving:request_count", and labels."""

    kind = ""

    def __init__(self, name: str, labels: Sequence[str]) -> None:
        self.name = name
        self._labels = labels
        self._lock = threading.Lock()

    @staticmethod
    def _key(values: tuple[str, ...], known: Mapping[tuple[str, ...], object]) -> tuple[str, ...]:
        """Return the label values under which others than the ``known`` ones count."""
        return values if len(known) < MAX_LABEL_SETS else (OTHER,) * len(values)

    def _text(self, values: Sequence[str]) -> str:
        return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(self._labels, values, strict=True))

    def lines(self) -> Iterator[str]:
        """Yield the samples."""
        raise NotImplementedError


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Counter(Metric):
    """A number that grows."""

    kind = "counter"

    def __init__(self, name: str, *labels: str) -> None:
        super().__init__(name, labels)
        self._values: defaultdict[tuple[str, ...], int] = defaultdict(int)

    def add(self, amount: int, *values: str) -> None:
        """Add to the counter with these label values."""
        with self._lock:
            self._values[values if values in self._values else self._key(values, self._values)] += amount

    def lines(self) -> Iterator[str]:
        """Yield one line for each set of label values."""
        for values, value in sorted(self._values.items()):
            yield f"{self.name}{{{self._text(values)}}} {value}"


class Histogram(Metric):
    """Counts of values up to ``first * factor ** n``."""

    kind = "histogram"

    def __init__(self, name: str, buckets: tuple[float, float, int], *labels: str) -> None:
        super().__init__(name, labels)
        first, factor, count = buckets
        self._limits = [first * factor**power for power in range(count)]
        self._counts = defaultdict[tuple[str, ...], list[int]](lambda: [0] * (count + 1))
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def observe(self, value: float, *values: str) -> None:
        """Count one value under these label values."""
        with self._lock:
            key = values if values in self._counts else self._key(values, self._counts)
            self._counts[key][bisect.bisect_right(self._limits, value)] += 1
            self._sums[key] += value

    def lines(self) -> Iterator[str]:
        """Yield buckets, sum and count for each set of label values."""
        limits = [*(f"{limit:g}" for limit in self._limits), "+Inf"]
        for values, counts in sorted(self._counts.items()):
            text, total = self._text(values), 0
            for limit, count in zip(limits, counts, strict=True):
                total += count
                yield f'{self.name}_bucket{{{text}{"," if text else ""}le="{limit}"}} {total}'
            yield f"{self.name}_sum{{{text}}} {self._sums[values]:g}"
            yield f"{self.name}_count{{{text}}} {total}"


_LATENCY = (10.0, 1.8, 33)
_MICROSECONDS = 1e6


class Metrics:
    """All metrics of this server; latencies are in microseconds, as in tensorflow_model_server."""

    def __init__(self) -> None:
        serving, saved_model = ":tensorflow:serving:", ":tensorflow:cc:saved_model:"
        self.request_count = Counter(f"{serving}request_count", "model_name", "status")
        self.request_latency = Histogram(f"{serving}request_latency", _LATENCY, "model_name", "API", "entrypoint")
        self.runtime_latency = Histogram(f"{serving}runtime_latency", _LATENCY, "model_name", "API", "runtime")
        self.example_counts = Histogram(f"{serving}request_example_counts", (1.0, 2.0, 15), "model")
        self.example_count_total = Counter(f"{serving}request_example_count_total", "model")
        self.warmup_latency = Histogram(f"{serving}model_warmup_latency", _LATENCY, "model_path", "status")
        self.queuing_latency = Histogram(
            f"{serving}batching_session:queuing_latency", (100.0, 1.2, 52), "thread_pool_name"
        )
        self.load_attempt_count = Counter(f"{saved_model}load_attempt_count", "model_path", "status")
        self.load_latency = Counter(f"{saved_model}load_latency", "model_path")
        self.graph_runs = Counter(":tensorflow:core:graph_runs")
        self.graph_run_time = Counter(":tensorflow:core:graph_run_time_usecs")

    def page(self) -> bytes:
        """Return the page in Prometheus's text format."""
        metrics = [item for item in vars(self).values() if isinstance(item, Metric)]
        lines = []
        for metric in sorted(metrics, key=lambda item: item.name):
            lines += [f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")

    def running(self, model: str, api: str) -> AbstractContextManager[None]:
        """Measure the time of the call in the block in the TensorFlow runtime, unless it fails."""
        return _Running(self, model, api)

    def ran(self, model: str, api: str, seconds: float) -> None:
        """Count one call in the TensorFlow runtime."""
        spent = seconds * _MICROSECONDS
        self.runtime_latency.observe(spent, model, api, "TF1")
        self.graph_runs.add(1)
        self.graph_run_time.add(int(spent))

    def request(self, model: str, api: str, entrypoint: str, status: str, seconds: float) -> None:
        """Count one call; only successful ones have a latency, as in tensorflow_model_server."""
        self.request_count.add(1, model, status)
        if status == "OK":
            self.request_latency.observe(seconds * _MICROSECONDS, model, api, entrypoint)

    def examples(self, model: str, count: int) -> None:
        """Count the Examples of a classify or regress call."""
        self.example_counts.observe(count, model)
        self.example_count_total.add(count, model)

    def queued(self, seconds: float) -> None:
        """Count a call's time in the batching queue."""
        self.queuing_latency.observe(seconds * _MICROSECONDS, "")


class _Running(AbstractContextManager[None]):
    """See ``Metrics.running``."""

    def __init__(self, metrics: Metrics, model: str, api: str) -> None:
        self._metrics = metrics
        self._model = model
        self._api = api
        self._start = time.perf_counter()

    @override
    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._metrics.ran(self._model, self._api, time.perf_counter() - self._start)
