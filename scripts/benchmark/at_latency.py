"""Images a second within a latency, by MLPerf's LoadGen: ``python -m benchmark.at_latency [MODEL ...]``

All servers of a model run at once and are measured in turn. LoadGen's Offline scenario finds what each carries at most,
and the CPU time of an image; its Server scenario then looks for the highest rate at which 99 of 100 images are answered
within 50 and 100 ms. A published rate is one that LoadGen called valid. Prints a table for each model.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmark import machine, models, networks, photos
from benchmark.scenarios import engine_stacks
from benchmark.servers import resources
from benchmark.servers.base import REPOSITORY, Running, Server
from benchmark.servers.rival import VENV, Rival
from benchmark.servers.stack import Stack
from lightbox.harness.tables import table
from lightbox.telemetry import say

BOUNDS = (50, 100)
"""Milliseconds of the 99th percentile."""
SECONDS, IMAGES = 12.0, 500
"""How long a run lasts and how many images it has at least; MLPerf's rules for a submission want 600 seconds."""
LEAST, STEPS = 0.3, 4
"""The rate is looked for from this share of the Offline rate on, in a range that is halved so often."""
DISTURBED, REPEATS = 0.08, 500
SETTINGS = {
    "tensorflow, float32": {"LIGHTBOX_ENGINE": "tensorflow"},
    "auto, float32": {"LIGHTBOX_ENGINE": "auto"},
    "openvino, bfloat16, ONNX": {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "bf16"}'},
    "openvino, INT8": {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "int8"}'},
    "onnxruntime, float32, ONNX": {"LIGHTBOX_ENGINE": "onnxruntime"},
}
ROWS = {
    "efficientnet_lite0": tuple(SETTINGS),
    "mobilenet_v2": ("auto, float32",),
    "resnet50": ("auto, float32",),
}
Ask = tuple[str, float, float, float]
"""Scenario of LoadGen, images a second, bound in milliseconds, seconds."""
Figures = dict[str, float]


@dataclass
class Row:
    """A server, how LoadGen posts to it, and what came out: a rate for each bound, 0 where none is valid."""

    name: str
    server: Server
    path: str = "/invocations"
    form: bool = False
    offline: Figures = field(default_factory=dict)
    cpu_ms: float = 0.0
    rates: dict[int, Figures] = field(default_factory=dict)

    def search(self) -> Generator[Ask, Figures, None]:
        """Yield what to run next, and take what it gave."""
        self.offline = yield "Offline", 60, 0, SECONDS
        low, most = self.offline["rate"] * LEAST, self.offline["rate"]
        valid: Figures | None = None
        for bound in BOUNDS:
            high = most
            for _ in range(STEPS):
                rate = (low + high) / 2
                for _ in range(2):  # what is invalid is asked once more: a pause of the host is no limit of a server
                    figures = yield "Server", rate, bound, max(SECONDS, IMAGES / rate)
                    if figures["valid"]:
                        break
                if figures["valid"]:
                    low, valid = rate, figures
                else:
                    high = rate
            if valid:
                self.rates[bound] = valid

    def cells(self) -> list[str]:
        """Return the row of the table."""
        cells = [self.name, f"{self.cpu_ms:.1f}", f"{self.offline['rate']:.1f}"]
        for bound in BOUNDS:
            found = self.rates.get(bound)
            cells += [f"{found['rate']:.1f}", f"{found['p50']:.0f}, {found['p99']:.0f}"] if found else ["none", ""]
        return cells


def rows_of(model: str) -> list[Row]:
    """Return the servers of a model: Lightbox by engine and precision, and the others."""
    networks.convert(model)
    workers = engine_stacks.WORKERS
    rows = [Row(f"Lightbox, {name}", _stack(model, name)) for name in ROWS[model]]
    rows.append(
        Row(
            "LitServe + ONNX Runtime",
            Rival(f"LitServe, {model}", "litserve_onnx.py", (model, workers), "/health"),
            "/predict",
            True,
        )
    )
    rows.append(
        Row("FastAPI + ONNX Runtime", Rival(f"FastAPI, {model}", "fastapi_onnx.py", (model, workers)), "/binary/")
    )
    return rows


def _stack(model: str, name: str) -> Stack:
    stack = engine_stacks.stack(name, SETTINGS[name], model)
    if "INT8" in name:
        return Stack(name, models.quantized(model), stack.settings)
    if "ONNX" in name:
        root = models.MODELS / f"{model}_onnx"
        models.link(root / model / "1" / "model.onnx", networks.convert(model))
        return Stack(name, root, stack.settings)
    return stack


def measure(rows: list[Row], images: list[Path]) -> None:
    """Run all searches in turn, a step of each."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        started = []
        for number, row in enumerate(rows):
            say.progress(f"starting {row.name}")
            server = row.server.start(Path(folder) / str(number))
            running.callback(server.stop)
            for _ in range(2):  # warm: what is loaded by a first call is loaded
                _loadgen(row, server, images, ("Offline", 10, 0, 1))
            started.append((row, server, row.search()))
        last: dict[str, Figures | None] = {row.name: None for row in rows}
        while started:
            for entry in list(started):
                row, server, search = entry
                try:
                    ask = search.send(last[row.name])  # type: ignore[arg-type]
                except StopIteration:
                    started.remove(entry)
                    continue
                servers = [server, *(other for _, other, _ in started if other is not server)]
                figures = last[row.name] = _undisturbed(row, servers, images, ask)
                row.cpu_ms = row.cpu_ms or figures["cpu_ms"]
                say.progress(f"{row.name}: {ask[0]}, {ask[1]:.1f}/s, {ask[2]} ms: {figures}")


def _undisturbed(row: Row, servers: list[Running], images: list[Path], ask: Ask) -> Figures:
    """Run LoadGen against the first of the servers, again where other processes took more than ``DISTURBED`` of a core.

    Raises RuntimeError where that goes on.
    """
    for _ in range(REPEATS):
        figures = _watched(row, servers, images, ask)
        if figures["others"] <= DISTURBED:
            return figures
        say.progress(f"{row.name}: again, since other processes took {figures['others']:.2f} of a core")
    raise RuntimeError(f"other processes take more than {DISTURBED} of a core: measure when they do not")


def _watched(row: Row, servers: list[Running], images: list[Path], ask: Ask) -> Figures:
    """Run LoadGen; add the server's CPU ms an image, and what share of a core processes that are not ours took."""
    began, busy, client = time.perf_counter(), _busy(), _children()
    used = [_cpu(server) for server in servers]
    figures = _loadgen(row, servers[0], images, ask)
    used = [_cpu(server) - before for server, before in zip(servers, used, strict=True)]
    others = (_busy() - busy - sum(used) - (_children() - client)) / (time.perf_counter() - began)
    return figures | {"cpu_ms": used[0] / figures["images"] * 1000, "others": others}


def _cpu(server: Running) -> float:
    return sum(resources.cpu_seconds(server.pid).values())


def _busy() -> float:
    """Return the seconds of CPU that all processes but this one have used since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.system) - time.process_time()


def _children() -> float:
    """Return the seconds of CPU of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _loadgen(row: Row, server: Running, images: list[Path], ask: Ask) -> Figures:
    scenario, rate, milliseconds, seconds = ask
    url = f"http://{server.address.host}:{server.address.port}{row.path}"
    command = [str(VENV / "bin" / "python"), str(REPOSITORY / "scripts" / "loadgen.py"), url, *map(str, images)]
    command += ["--scenario", scenario, "--rate", str(rate), "--milliseconds", str(milliseconds or 1000)]
    command += ["--seconds", str(seconds), *(["--form", "image"] if row.form else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    if not done.stdout.rstrip().endswith("}"):
        raise RuntimeError(f"loadgen.py: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(names: list[str]) -> None:
    """Measure some models, all of them by default, and print a table for each."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the servers are stopped
    images = photos.write_crops(models.MODELS / "photos", 16, (1024, 768))
    print(", ".join(f"{name} {value}" for name, value in machine.machine().items()))
    header = ["", "CPU ms an image", "Offline, images/s"]
    for bound in BOUNDS:
        header += [f"images/s at p99 ≤ {bound} ms", "p50, p99 ms"]
    for model in names or ROWS:
        rows = rows_of(model)
        measure(rows, images)
        print("\n".join(["", f"## {model}", "", *table(header, [row.cells() for row in rows], "lr")]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
