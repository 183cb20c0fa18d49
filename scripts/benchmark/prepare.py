"""Makes the models and networks that are measured, in processes of their own: TensorFlow stays out of this one."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmark.servers.base import REPOSITORY
from benchmark.servers.rival import RIVALS, VENV
from model_zoo import say


def prepare() -> None:
    """Make what is missing; a minute the first time. Raises CalledProcessError."""
    make_models()
    _run([str(VENV / "bin" / "python"), str(RIVALS / "network.py")])


def make_models() -> None:
    """Make the models alone. Raises CalledProcessError."""
    say.progress("models: made where they are missing")
    _run([sys.executable, "-m", "benchmark.models"])


def _run(command: list[str]) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    subprocess.run(command, env=dict(os.environ) | {"PYTHONPATH": paths}, check=True)  # noqa: S603 - our own modules
