"""Counters and histograms with tensorflow_model_server's names, as a Prometheus page."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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

    def _key(self, values: tuple[str, ...], known: dict[tuple[str, ...], object]) -> tuple[str, ...]:
        if values in known or len(known) < MAX_LABEL_SETS:
            return values
        return (OTHER,) * len(values)

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
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, amount: int, *values: str) -> None:
        """Add to the counter with these label values."""
        with self._lock:
            key = self._key(values, self._values)  # type: ignore[arg-type]
            self._values[key] = self._values.get(key, 0) + amount

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
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *values: str) -> None:
        """Count one value under these label values."""
        with self._lock:
            key = self._key(values, self._counts)  # type: ignore[arg-type]
            counts = self._counts.setdefault(key, [0] * (len(self._limits) + 1))
            counts[bisect.bisect_right(self._limits, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

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

    @contextmanager
    def running(self, model: str, api: str) -> Iterator[None]:
        """Measure a call's time in the TensorFlow runtime."""
        start = time.perf_counter()
        yield
        spent = (time.perf_counter() - start) * _MICROSECONDS
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
