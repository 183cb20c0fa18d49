"""How long `make serve` takes until /ping is 200, and where the time goes: with `auto` and with `tensorflow`.

A first start has an empty XDG_CACHE_HOME, later ones have what it left. Every start finds all files in the page cache,
and compiled Python modules. The steps are read from the JSON log, the processor time from /proc when /ping is 200.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lightbox.harness.stack import Stack, clean_environ
from lightbox.harness.tables import table

REPOSITORY = Path(__file__).resolve().parents[1]
ENGINES = ("auto", "tensorflow")
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
PING = "/ping is 200"
PROCESSES = {
    "nginx": "nginx",
    "gunicorn": "gunicorn",
    "model_server": "model server",
    "lightbox serve": "supervisor",
}


@dataclass(frozen=True)
class Start:
    """Seconds since the start until each step was done, and the processor seconds of each process by then."""

    steps: Mapping[str, float]
    cpu: Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """The first starts of one engine, or later ones."""

    name: str
    starts: Sequence[Start]

    def median(self, step: str) -> float | None:
        """Return the median of the seconds until a step; None where no start has it."""
        seconds = [start.steps[step] for start in self.starts if step in start.steps]
        return statistics.median(seconds) if seconds else None

    def cpu(self, process: str) -> float:
        """Return the median of a process's processor seconds."""
        return statistics.median(start.cpu.get(process, 0.0) for start in self.starts)

    @property
    def fastest(self) -> float:
        """Seconds until /ping was 200 in the fastest start."""
        return min(start.steps[PING] for start in self.starts)


def steps_of(log: str, began: float) -> dict[str, float]:
    """Return the seconds from ``began``, in Unix time, to the first line of each step in a JSON log."""
    found: dict[str, float] = {}
    for line in log.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            for step, (process, text) in STEPS.items():
                if step not in found and entry["process"] == process and text in entry["message"]:
                    found[step] = datetime.fromisoformat(entry["time"]).timestamp() - began
    return found


def cpu_of(leader: int) -> dict[str, float]:
    """Return the processor seconds of a stack's processes by their names, ended children of theirs included."""
    found: dict[str, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ProcessLookupError):
            state = entry.read_text(errors="replace").rpartition(")")[2].split()
            command = (entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            name = next((name for part, name in PROCESSES.items() if part in command), None)
            if state[3] == str(leader) and name is not None:
                found[name] = found.get(name, 0.0) + sum(map(int, state[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def start_once(engine: str, folder: Path, cache: Path, bytecode: Path) -> Start:
    """Start a stack, wait for /ping, stop it. Raises ServerFailed."""
    own = {
        "LIGHTBOX_ENGINE": engine,
        "XDG_CACHE_HOME": str(cache),
        "LIGHTBOX_LOG_FORMAT": "json",
        "SAGEMAKER_GUNICORN_LOGLEVEL": "debug",
        "TMPDIR": str(folder),
        # The image has compiled modules. Here they are compiled into a folder of this measurement.
        "PYTHONPYCACHEPREFIX": str(bytecode),
    }
    environ = {name: value for name, value in clean_environ().items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.time()
    with Stack(own, environ, folder, command=("make", "--no-print-directory", "-C", REPOSITORY)) as stack:
        ready = stack.until_ready(pause=PAUSE_SECONDS)
        return Start({**steps_of(stack.log, began), PING: ready}, cpu_of(stack.process.pid))


def measure(engines: Iterable[str], starts: int, folder: Path) -> list[Case]:
    """Start each engine ``starts`` times for the first time, and as often later. Raises ServerFailed."""
    cache = folder / "cache"

    def start(engine: str, forget: bool) -> Start:
        if forget:
            shutil.rmtree(cache, ignore_errors=True)
        return start_once(engine, folder / "tmp", cache, folder / "bytecode")

    cases = []
    for engine in engines:
        start(engine, forget=True)  # modules are compiled and files are in the page cache now
        if engine != "tensorflow":  # which has nothing to find out
            cases.append(Case(f"{engine}, first start", [start(engine, forget=True) for _ in range(starts)]))
        cases.append(Case(f"{engine}, later start", [start(engine, forget=False) for _ in range(starts)]))
    return cases


def report(cases: Sequence[Case]) -> str:
    """Return both tables in Markdown."""
    names = [case.name for case in cases]
    times = [
        [step, *(_seconds(case.median(step)) for case in cases)] for step in sorted([*STEPS, PING], key=_order(cases))
    ]
    times.append([f"{PING}, fastest of the starts", *(_seconds(case.fastest) for case in cases)])
    cpu = [[process, *(_seconds(case.cpu(process)) for case in cases)] for process in sorted(set(PROCESSES.values()))]
    cpu.append(["together", *(_seconds(sum(map(case.cpu, set(PROCESSES.values())))) for case in cases)])
    lines = [*table(["seconds until", *names], times, "lr"), "", *table(["processor seconds", *names], cpu, "lr")]
    return "\n".join(lines)


def _order(cases: Sequence[Case]) -> Callable[[str], float]:
    """Return what sorts the steps: as they came in the last of the cases, whose longest is the model's load."""
    return lambda step: cases[-1].median(step) or 0.0


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="one of the engines; both without it")
    parser.add_argument("--starts", type=int, default=STARTS, help="in each case")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cold-") as folder:
        cases = measure(options.engine or ENGINES, options.starts, Path(folder))
    load = os.getloadavg()[0]
    print(f"{report(cases)}\n\n{os.cpu_count()} cores, load {load:.1f}; {options.starts} starts each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
