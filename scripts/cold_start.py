"""How long a start takes until /ping is 200, and where the time goes: `cold_start.py MODEL_DIR`, for each engine.

Each engine starts with a filled XDG_CACHE_HOME, with an empty one, and with an empty one for a model that
`serve.sh engines --write` has seen. Every start finds all files in the page cache, and compiled Python modules.
The steps are read from the JSON log of `serve.sh serve`, and the processor time from /proc when /ping is 200.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
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
from lightbox.processes.commands import PYTHON, child_environ

ENGINES = ("openvino", "auto", "tensorflow")
STARTS = 5
PAUSE_SECONDS = 0.02
"""Between two questions to /ping."""

STEPS: Mapping[str, tuple[str, str]] = {
    "supervisor begins its children": ("lightbox", "models: "),
    "gunicorn is imported": ("gunicorn", "Starting gunicorn"),
    "app is imported, workers are forked": ("gunicorn", "Listening at"),
    "model server is imported": ("model_server", "Loading servable version"),
    "model is loaded and warm": ("model_server", "Successfully loaded servable version"),
    "model server listens": ("model_server", "Running gRPC ModelServer"),
}
"""Each step with the process whose line ends it, and what this line has in it."""
PING = "/ping is 200"
PROCESSES = {"nginx": "nginx", "gunicorn": "gunicorn", "model_server": "model server", "lightbox serve": "supervisor"}


@dataclass(frozen=True)
class Start:
    """Seconds since the start until each step was done, and the processor seconds of each process by then."""

    steps: Mapping[str, float]
    cpu: Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """The starts of one engine in one case."""

    engine: str
    cache: str
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


def start_once(model: Path, engine: str, folder: Path, cache: Path, bytecode: Path) -> Start:
    """Start a stack, wait for /ping, stop it. Raises ServerFailed."""
    own = {
        "LIGHTBOX_MODEL_DIR": str(model),
        "LIGHTBOX_MODEL_SERVER": "embedded",
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
    with Stack(own, environ, folder) as stack:
        ready = stack.until_ready(pause=PAUSE_SECONDS)
        return Start({**steps_of(stack.log, began), PING: ready}, cpu_of(stack.process.pid))


def measure(model: Path, engines: Iterable[str], starts: int, folder: Path) -> list[Case]:
    """Start each engine ``starts`` times in each case. Raises ServerFailed, and CalledProcessError."""
    cases = []
    bytecode, empty, filled, compared = (folder / name for name in ("bytecode", "empty", "filled", "compared"))

    def start(model: Path, cache: Path) -> Start:
        return start_once(model, engine, folder / "tmp", cache, bytecode)

    for engine in engines:
        shutil.rmtree(filled, ignore_errors=True)
        start(model, filled)  # modules are compiled, files are in the page cache, and this cache is filled now
        cases.append(Case(engine, "filled", [start(model, filled) for _ in range(starts)]))
        if engine != "tensorflow":
            cases.append(Case(engine, "empty", [_without(empty, start, model) for _ in range(starts)]))
            if not compared.is_dir():
                _compare(model, compared)
            cases.append(Case(engine, "empty, compared", [_without(empty, start, compared) for _ in range(starts)]))
    return cases


def _without(cache: Path, start: Callable[[Path, Path], Start], model: Path) -> Start:
    shutil.rmtree(cache, ignore_errors=True)
    return start(model, cache)


def _compare(model: Path, copy: Path) -> None:
    """Copy a model and do what ``serve.sh engines --write`` is for."""
    shutil.copytree(model, copy)
    environ = child_environ() | {"LIGHTBOX_MODEL_DIR": str(copy), "LIGHTBOX_MODEL_SERVER": "embedded"}
    subprocess.run([*PYTHON, "lightbox", "engines", "--write"], env=environ, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def report(cases: Sequence[Case]) -> str:
    """Return both tables in Markdown."""
    names = [f"{case.engine}, {case.cache}" for case in cases]
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
    parser.add_argument("model", type=Path, help="what LIGHTBOX_MODEL_DIR would be")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="one of the engines; all without it")
    parser.add_argument("--starts", type=int, default=STARTS, help="in each case")
    options = parser.parse_args(arguments)
    if not options.model.is_dir():
        print(f"cold_start.py: {options.model} is not a folder", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="cold-") as folder:
        cases = measure(options.model.resolve(), options.engine or ENGINES, options.starts, Path(folder))
    load = os.getloadavg()[0]
    print(f"{report(cases)}\n\n{os.cpu_count()} cores, load {load:.1f}; {options.starts} starts each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
