"""Makes the measured models and networks in a separate process, to keep TensorFlow out of this one."""

from __future__ import annotations

import fcntl
import multiprocessing
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor

from benchmark import models
from benchmark.declarations import Scale
from lightbox.base.telemetry import say


def prepare(scale: Scale, scenarios: Collection[str]) -> None:
    """Make the missing models of these scenarios, a minute the first time. Raises the makers' errors."""
    say.progress("models: made where they are missing")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        apart.submit(_make, scale, scenarios).result()


def _make(scale: Scale, scenarios: Collection[str]) -> None:
    """Make them in this process: declaring a scenario makes its models."""
    from benchmark.networks import convert
    from benchmark.scenarios import SCENARIOS

    models.MODELS.mkdir(parents=True, exist_ok=True)
    with (models.MODELS / ".making").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another run may make the same models
        for name in scenarios:
            SCENARIOS[name](scale)
        if "load" in scenarios:
            convert()
