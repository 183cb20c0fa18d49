"""/metrics, answered by the supervisor: no request waits for it, and it waits for none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lightbox.plan import ServingPlan
from lightbox.processes.model_states import model_states
from lightbox.telemetry.exposition import ProcessFacts, exposition
from lightbox.telemetry.metric_names import METRICS_FOLDER

STATE_SECONDS = 1.0
"""How long a model server may take to say its models' states; then they are missing from the page."""
MOST_MODELS = 100


class MetricsPage:
    """Makes the page anew for each caller."""

    def __init__(
        self, plan: ServingPlan, run_dir: Path, models: Callable[[], Iterable[str]], refused: Mapping[str, int]
    ) -> None:
        self._folder = run_dir / METRICS_FOLDER
        self._servers = plan.model_servers
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

        async def ask(index: int, port: int) -> None:
            for name in names:
                for state in await model_states(port, name):
                    counts[name, str(index), state] += 1

        asked = [asyncio.create_task(ask(i, server.rest_port)) for i, server in enumerate(self._servers)]
        _, late = await asyncio.wait(asked, timeout=STATE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return dict(counts)
