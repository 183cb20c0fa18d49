"""The text of /metrics: the counts of the workers and the state of the supervisor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightbox import __version__
from lightbox.base.telemetry.metrics import (
    BUILD,
    HANGS,
    IN_PROGRESS,
    METRICS_FOLDER,
    MODEL_ENGINE,
    MODEL_VERSIONS,
    READY,
    REJECTED,
    RESTARTS,
    SATURATION,
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


def exposition(folder: Path, facts: Mapping[Metric, Measured], refused: Mapping[str, int]) -> bytes:
    """Return the page in Prometheus's text format; ``refused`` counts nginx's refusals by reason."""
    # Late import: a supervisor without requests for metrics stays small.
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    folder.mkdir(exist_ok=True)
    workers = MultiProcessCollector(None, path=str(folder))  # type: ignore[no-untyped-call]
    registry.register(_Workers(workers, refused))
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

    def __init__(self, facts: Mapping[Metric, Measured]) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric, measured in self._facts.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family: Any = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in measured.items() if isinstance(measured, Mapping) else [((), measured)]:
                family.add_metric((labels,) if isinstance(labels, str) else labels, value)
            yield family


class MetricsPage:
    """Writes the page for each request."""

    def __init__(
        self,
        statuses: Sequence[ModelStatus],
        run_dir: Path,
        models: Callable[[], Iterable[str]],
        refused: Mapping[str, int],
        measure: Callable[[], Mapping[Metric, Measured]],
    ) -> None:
        """``measure`` returns the values of the features and of the processes."""
        self._run_dir = run_dir
        self._folder = run_dir / METRICS_FOLDER
        self._statuses = statuses
        self._models = models
        self.restarts: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()
        self._refused = refused
        self._measure = measure

    async def render(self, ready: bool, saturation: Saturation) -> bytes:
        """Return the page in Prometheus's text format."""
        engines = [(item.model, str(item.version), item.signature, item.engine) for item in all_engines(self._run_dir)]
        facts: dict[Metric, Measured] = {
            READY: float(ready),
            IN_PROGRESS: saturation.in_progress,
            SATURATION: saturation.value,
            RESTARTS: dict(self.restarts),
            HANGS: dict(self.hangs),
            MODEL_VERSIONS: await self._versions(),
            MODEL_ENGINE: dict.fromkeys(engines, 1),
            BUILD: {__version__: 1},
            **self._measure(),
        }
        return await asyncio.to_thread(exposition, self._folder, facts, dict(self._refused))

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
