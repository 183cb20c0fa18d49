"""The text of /metrics: the counts of the workers and the state of the supervisor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightbox import __version__
from lightbox.base.telemetry.metrics import (
    BUILD,
    HANGS,
    IN_PROGRESS,
    LOG_LINES_DROPPED,
    METRICS_FOLDER,
    MODEL_ENGINE,
    MODEL_VERSIONS,
    READY,
    REJECTED,
    RESTARTS,
    SATURATION,
    VERSION_NOT_SERVED,
    Metric,
)
from lightbox.base.telemetry.saturation import Saturation
from lightbox.core.additions import Measured
from lightbox.model.engine_report import all_engines
from lightbox.transports.model_status import ModelStatus

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATE_SECONDS = 1.0
"""Seconds that a model server has to report its models' states; later they are missing from the page."""
MOST_MODELS = 100


@dataclass
class ProcessFacts:
    """The supervisor's state. ``versions`` counts by (model, server, state), ``refused`` nginx's refusals by reason."""

    ready: bool
    restarts: Mapping[str, int]
    versions: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    not_served: Sequence[tuple[str, ...]] = ()
    engines: Sequence[tuple[str, ...]] = ()
    """``not_served`` and ``engines`` have the labels of their metrics."""
    saturation: float = 0.0
    in_progress: int = 0
    hangs: Mapping[str, int] = field(default_factory=dict)
    """By process, as in ``restarts``."""
    measured: Mapping[Metric, Measured] = field(default_factory=dict)
    """Metrics of the log and of the features."""


def exposition(folder: Path, facts: ProcessFacts) -> bytes:
    """Return the page in Prometheus's text format."""
    # Late import: a supervisor without requests for metrics stays small.
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    folder.mkdir(exist_ok=True)
    workers = MultiProcessCollector(None, path=str(folder))  # type: ignore[no-untyped-call]
    registry.register(_Workers(workers, facts.refused))
    registry.register(_Facts(facts))
    return generate_latest(registry)


class _Workers:
    """Collects the counts of the workers, with nginx's refusals added: callers see no difference."""

    def __init__(self, workers: Any, refused: Mapping[str, int]) -> None:
        self._workers = workers
        self._refused = refused

    def collect(self) -> Iterable[Family]:
        from prometheus_client.core import CounterMetricFamily

        families = {family.name: family for family in self._workers.collect()}
        for reason, count in self._refused.items():
            family: Any = families.setdefault(
                REJECTED.name, CounterMetricFamily(REJECTED.name, REJECTED.help, labels=REJECTED.labels)
            )
            name, labels = f"{REJECTED.name}_total", {"reason": reason}
            earlier = [sample for sample in family.samples if sample.labels == labels]
            family.samples = [sample for sample in family.samples if sample not in earlier]
            family.add_sample(name, labels, count + sum(sample.value for sample in earlier))
        return families.values()


class _Facts:
    """A collector in prometheus-client's form."""

    def __init__(self, facts: ProcessFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily(READY.name, READY.help, value=float(self._facts.ready))
        yield GaugeMetricFamily(IN_PROGRESS.name, IN_PROGRESS.help, value=self._facts.in_progress)
        yield GaugeMetricFamily(SATURATION.name, SATURATION.help, value=self._facts.saturation)
        for metric, counts in ((RESTARTS, self._facts.restarts), (HANGS, self._facts.hangs)):
            family: Any = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for process, count in counts.items():
                family.add_metric([process], count)
            yield family
        versions: Any = GaugeMetricFamily(MODEL_VERSIONS.name, MODEL_VERSIONS.help, labels=MODEL_VERSIONS.labels)
        for labels, count in self._facts.versions.items():
            versions.add_metric(labels, count)
        yield versions
        for metric, present in ((VERSION_NOT_SERVED, self._facts.not_served), (MODEL_ENGINE, self._facts.engines)):
            gauge: Any = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels in present:
                gauge.add_metric(labels, 1)
            yield gauge
        for metric, measured in self._facts.measured.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            own: Any = kind(metric.name, metric.help, labels=metric.labels)
            for label, value in measured.items() if isinstance(measured, Mapping) else [(None, measured)]:
                own.add_metric([] if label is None else [label], value)
            yield own


class MetricsPage:
    """Writes the page for each request."""

    def __init__(
        self,
        statuses: Sequence[ModelStatus],
        run_dir: Path,
        models: Callable[[], Iterable[str]],
        refused: Mapping[str, int],
        not_served: Callable[[], Sequence[tuple[str, ...]]],
        measure: Callable[[], Mapping[Metric, Measured]] = dict,
        dropped_lines: Callable[[], int] = int,
    ) -> None:
        """``measure`` returns the values of the features and of the processes."""
        self._run_dir = run_dir
        self._folder = run_dir / METRICS_FOLDER
        self._statuses = statuses
        self._models = models
        self.restarts: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()
        self._refused = refused
        self._not_served = not_served
        self._measure = measure
        self._dropped_lines = dropped_lines

    async def render(self, ready: bool, saturation: Saturation) -> bytes:
        """Return the page in Prometheus's text format."""
        engines = [(item.model, str(item.version), item.signature, item.engine) for item in all_engines(self._run_dir)]
        versions = await self._versions()
        facts = ProcessFacts(
            ready,
            dict(self.restarts),
            versions,
            dict(self._refused),
            self._not_served(),
            engines,
            saturation.value,
            saturation.in_progress,
            dict(self.hangs),
            {
                LOG_LINES_DROPPED: self._dropped_lines(),
                BUILD: {__version__: 1},
                **self._measure(),
            },
        )
        return await asyncio.to_thread(exposition, self._folder, facts)

    async def _versions(self) -> dict[tuple[str, ...], int]:
        """Request the states of all models from every model server, one model after another."""
        names = sorted(self._models())[:MOST_MODELS]
        counts: Counter[tuple[str, ...]] = Counter()

        async def ask(index: int, status: ModelStatus) -> None:
            for name in names:
                for version in (await status.versions(name)).values():
                    counts[name, str(index), version.state] += 1

        asked = [asyncio.create_task(ask(index, status)) for index, status in enumerate(self._statuses)]
        _, late = await asyncio.wait(asked, timeout=STATE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return dict(counts)
