"""Makes the models and networks that are measured, in processes of their own: TensorFlow stays out of this one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Collection

from benchmark import models
from benchmark.declarations import Scale
from benchmark.servers import REPOSITORY, VENV
from lightbox.telemetry import say


class Unprepared(Exception):
    """Something is missing that this cannot make; the message says what to do."""


def prepare(scale: Scale, scenarios: Collection[str]) -> None:
    """Make what is missing for these scenarios; a minute the first time. Raises CalledProcessError and Unprepared."""
    if "load" in scenarios and not VENV.is_dir():
        raise Unprepared(f"{VENV} is missing, in which the other servers run: `make bench` makes it")
    if "load" in scenarios and scale.name == "full" and not models.QUANTIZE_VENV.is_dir():
        raise Unprepared(f"{models.QUANTIZE_VENV} is missing, in which models are quantized: `make bench` makes it")
    say.progress("models: made where they are missing")
    _run([sys.executable, "-m", "benchmark.prepare", scale.name, *scenarios])


def _run(command: list[str]) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    subprocess.run(command, env=dict(os.environ) | {"PYTHONPATH": paths}, check=True)  # noqa: S603 - our own modules


def _make(scale: Scale, scenarios: Collection[str]) -> None:
    """Make it here: who declares a scenario makes the models that it names."""
    from benchmark.networks import convert
    from benchmark.scenarios import SCENARIOS

    models.MODELS.mkdir(parents=True, exist_ok=True)
    with (models.MODELS / ".making").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another run may want the same
        for name in scenarios:
            SCENARIOS[name](scale)
        if "load" in scenarios:
            convert("mobilenet_v3", resize=True)
            for network in ("mobilenet_v2", *scale.pick((), ("mobilenet_v3", "resnet50"))):
                convert(network)


if __name__ == "__main__":
    _make(Scale("quick" if sys.argv[1] == "quick" else "full"), sys.argv[2:])
