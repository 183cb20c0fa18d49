"""The models' shares, as metrics; and a line in the log when requests wait for a handler while the processor idles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.base.telemetry.metrics import MODEL_REFUSED, MODEL_REQUESTS, MODEL_RUNNING, Metric
from lightbox.core.additions import Measured
from lightbox.core.places import Counts, counts_of_models
from lightbox.model.plan import ServingPlan
from lightbox.model_runtime.cores import available_cores
from lightbox.user_code.paths import find_inference

LOOK_SECONDS = 5.0
AGAIN_SECONDS = 600.0
"""Time between two lines about a model."""
IDLE = 0.5
"""Part of the cores that is in use at most, of an idle processor."""
MOST_MODELS = 100


class ShareWatch:
    """Follows the shares of models; ``cpu_seconds`` returns the processor time of all processes since the start."""

    def __init__(self, plan: ServingPlan, settings: Settings, run_dir: Path, cpu_seconds: Callable[[], float]) -> None:
        self._run_dir = run_dir
        self._cpu_seconds = cpu_seconds
        self._limits = {
            name: model.options.concurrency or settings.slots
            for name, model in plan.models.items()
            if find_inference(model.code_dirs) is not None
        }
        """How many requests of a model with code run at once."""
        concurrency = {name: model.options.concurrency for name, model in plan.models.items()}
        self._own = {name: most for name, most in concurrency.items() if most}
        self._waited: set[str] = set()
        self._looked = (0.0, 0.0)
        self._said: dict[str, float] = {}

    def measure(self) -> Mapping[Metric, Measured]:
        """Return the values of the metrics."""
        counts = dict(sorted(counts_of_models(self._run_dir).items())[:MOST_MODELS])
        return {
            MODEL_REQUESTS: {name: count.here for name, count in counts.items()},
            MODEL_RUNNING: {name: count.running for name, count in counts.items()},
            MODEL_REFUSED: {name: count.refused for name, count in counts.items()},
        }

    def own(self) -> list[tuple[int, int]]:
        """Return the requests of each model with a concurrency, and that."""
        counts = counts_of_models(self._run_dir) if self._own else {}
        return [(counts[name].here, most) for name, most in self._own.items() if name in counts]

    async def follow(self) -> None:
        """Look forever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look(time.monotonic(), counts_of_models(self._run_dir))

    def look(self, now: float, counts: Mapping[str, Counts]) -> None:
        """Log the models whose requests waited for their handlers, at the last look too, while the processor idled."""
        waiting = {name for name, count in counts.items() if name in self._limits and 0 < count.running < count.here}
        if waiting:
            used, (before, at) = self._cpu_seconds(), self._looked
            self._looked = used, now
            idle = used - before < IDLE * available_cores() * (now - at)
            for name in sorted(waiting & self._waited if idle else ()):
                if now - self._said.get(name, -AGAIN_SECONDS) >= AGAIN_SECONDS:
                    self._said[name] = now
                    log(
                        f"warning: requests of the model {name!r} wait for its inference.py while the processor idles: "
                        f"{counts[name].running} run at once; set the option concurrency, now {self._limits[name]}, "
                        "if it waits for others"
                    )
        self._waited = waiting
