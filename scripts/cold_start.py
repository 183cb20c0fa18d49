"""Measures the time from `make serve` to /ping 200, by step, with `auto` and with `tensorflow`.

A first start has an empty XDG_CACHE_HOME; later starts reuse its cache. Every start has all files in the page cache
and compiled Python modules. The steps come from the JSON log; the CPU time is read when /ping is 200.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmark.resources import cpu_seconds
from lightbox.tools.harness.stack import Stack, clean_environ
from lightbox.tools.harness.tables import table

REPOSITORY = Path(__file__).resolve().parents[1]
STARTS = 5
PAUSE_SECONDS = 0.02
"""Between two questions to /ping."""

STEPS: Mapping[str, tuple[str, str]] = {
    "supervisor begins its children": ("lightbox", "models: "),
    "gunicorn is imported": ("gunicorn", "Starting gunicorn"),
    "app is imported, workers are forked": ("gunicorn", "Listening at"),
    "model server is imported": ("model_server", "Loading servable version"),
    "models are loaded, model server listens": ("model_server", "Running gRPC ModelServer"),
}
"""Each step with the process whose line ends it, and what this line has in it."""
PING, TOGETHER = "/ping is 200", "together"
Figures = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """First or later starts of one engine: seconds until each step, and CPU seconds of each role."""

    name: str
    starts: list[tuple[Figures, Figures]]

    def median(self, what: str) -> float | None:
        """Return the median seconds of a step or role; None if no start has it."""
        seconds = [figures[what] for start in self.starts for figures in start if what in figures]
        return statistics.median(seconds) if seconds else None


def steps_of(log: str, began: float) -> dict[str, float]:
    """Return the seconds from ``began``, in Unix time, to the first line of each step in a JSON log."""
    steps: dict[str, float] = {}
    for line in log.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            for step, (process, text) in STEPS.items():
                if step not in steps and entry["process"] == process and text in entry["message"]:
                    steps[step] = datetime.fromisoformat(entry["time"]).timestamp() - began
    return steps


def start_once(engine: str, folder: Path, cache: Path, bytecode: Path) -> tuple[Figures, Figures]:
    """Start a stack, wait for /ping, stop it. Raises ServerFailed."""
    own = {
        "LIGHTBOX_ENGINE": engine,
        "XDG_CACHE_HOME": str(cache),
        "LIGHTBOX_LOG_FORMAT": "json",
        "SAGEMAKER_GUNICORN_LOGLEVEL": "debug",
        "TMPDIR": str(folder),
        # The image has compiled modules. Here they are compiled into the measurement's folder.
        "PYTHONPYCACHEPREFIX": str(bytecode),
    }
    environ = {name: value for name, value in clean_environ().items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.time()
    with Stack(own, environ, folder, command=("make", "--no-print-directory", "-C", REPOSITORY)) as stack:
        ready = stack.until_ready(pause=PAUSE_SECONDS)
        cpu = cpu_seconds(stack.process.pid, ended=True)
        return {**steps_of(stack.log, began), PING: ready}, {**cpu, TOGETHER: sum(cpu.values())}


def measure(folder: Path) -> list[Case]:
    """Run STARTS starts of each case, in turns, so that all meet the same machine. Raises ServerFailed."""
    cache = folder / "cache"
    cases = [Case(name, []) for name in ("auto, first start", "auto, later start", "tensorflow")]
    for turn in range(1 + STARTS):
        shutil.rmtree(cache, ignore_errors=True)
        for case in cases:
            figures = start_once(case.name.partition(",")[0], folder / "tmp", cache, folder / "bytecode")
            if turn:  # the first turn compiles modules and brings files into the page cache
                case.starts.append(figures)
    return cases


def report(cases: Sequence[Case]) -> str:
    """Return both tables in Markdown."""
    names = [case.name for case in cases]
    # Steps have the order of the last case, where the model's load is longest.
    steps = sorted([*STEPS, PING], key=lambda step: cases[-1].median(step) or 0.0)
    times = [[step, *(_seconds(case.median(step)) for case in cases)] for step in steps]
    fastest = (min(steps[PING] for steps, _ in case.starts) for case in cases)
    times.append([f"{PING}, fastest of the starts", *map(_seconds, fastest)])
    roles = sorted(
        {role for case in cases for _, cpu in case.starts for role in cpu}, key=lambda role: (role == TOGETHER, role)
    )
    cpu = [[role, *(_seconds(case.median(role)) for case in cases)] for role in roles]
    lines = [*table(["seconds until", *names], times, "lr"), "", *table(["processor seconds", *names], cpu, "lr")]
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="cold-") as folder:
        cases = measure(Path(folder))
    load = os.getloadavg()[0]
    print(f"{report(cases)}\n\n{os.cpu_count()} cores, load {load:.1f}; {STARTS} starts each")


if __name__ == "__main__":
    main()
