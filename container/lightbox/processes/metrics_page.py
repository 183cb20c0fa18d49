"""/metrics, answered by the supervisor: no request waits for it, and it waits for none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lightbox.telemetry.exposition import ProcessFacts, exposition
from lightbox.telemetry.metric_names import METRICS_FOLDER
from lightbox.transports.model_status import ModelStatus

STATE_SECONDS = 1.0
"""How long a model server may take to say its models' states; then they are missing from the page."""
MOST_MODELS = 100


class MetricsPage:
    """Makes the page anew for each caller."""

    def __init__(
        self,
        statuses: Sequence[ModelStatus],
        run_dir: Path,
        models: Callable[[], Iterable[str]],
        refused: Mapping[str, int],
    ) -> None:
        self._folder = run_dir / METRICS_FOLDER
        self._statuses = statuses
        self._models = models
        self.restarts: Counter[str] = Counter()
        self._refused = refused

    async def render(self, ready: bool) -> bytes:
        """Return the page in Prometheus's text format."""
        facts = ProcessFacts(ready, dict(self.restarts), await self._versions(), dict(self._refused))
        return await asyncio.to_thread(exposition, self._folder, facts)

    async def _versions(self) -> dict[tuple[str, ...], int]:
        """Ask every model server for the states of its models, one model after another."""
        names = sorted(self._models())[:MOST_MODELS]
        counts: Counter[tuple[str, ...]] = Counter()

        async def ask(index: int, status: ModelStatus) -> None:
            for name in names:
                for state in await status.states(name):
                    counts[name, str(index), state] += 1

        asked = [asyncio.create_task(ask(index, status)) for index, status in enumerate(self._statuses)]
        _, late = await asyncio.wait(asked, timeout=STATE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return dict(counts)
