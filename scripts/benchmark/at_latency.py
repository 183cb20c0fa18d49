"""Measures images/s within a latency bound, with MLPerf's LoadGen: ``python -m benchmark.at_latency [MODEL ...]``

All servers of a model run at once and are measured in turn. LoadGen's Offline scenario finds each maximum throughput
and the CPU time per image. Its Server scenario then finds the highest rate at which 99 of 100 images are answered
within 50 and 100 ms. Published rates are valid by LoadGen's verdict. Prints a table for each model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmark import machine, models, networks, photos, resources
from benchmark.clients.http import HttpClient
from benchmark.declarations import Variant
from benchmark.scenarios import common
from benchmark.servers import REPOSITORY, VENV, Running, Stack
from lightbox.base.telemetry import say
from lightbox.tools.harness.tables import table

BOUNDS = (50, 100)
"""Milliseconds of the 99th percentile."""
SECONDS, IMAGES = 12.0, 500
"""How long a run lasts and how many images it has at least; MLPerf's rules for a submission want 600 seconds."""
LEAST, STEPS = 0.3, 4
"""The rate is looked for from this share of the Offline rate on, in a range that is halved so often."""
DISTURBED, REPEATS = 0.08, 500
"""The share of a core that other processes may take during a run, and how often one with more is repeated."""
SETTINGS = {
    "tensorflow, float32": {"LIGHTBOX_ENGINE": "tensorflow"},
    "openvino, float32": {"LIGHTBOX_ENGINE": "openvino"},
    "openvino, bfloat16, ONNX": {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "bf16"}'},
    "openvino, INT8": {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "int8"}'},
    "onnxruntime, float32, ONNX": {"LIGHTBOX_ENGINE": "onnxruntime"},
    "auto, float32": {"LIGHTBOX_ENGINE": "auto"},
}
ROWS = {
    "efficientnet_lite0": tuple(name for name in SETTINGS if not name.startswith("auto")),  # it takes one of the others
    "mobilenet_v2": ("auto, float32",),
    "resnet50": ("auto, float32",),
}
Ask = tuple[str, float, float, float]
"""Scenario of LoadGen, images a second, bound in milliseconds, seconds."""
Figures = dict[str, float]


@dataclass
class Row:
    """The client of one server and its results: figures for each bound with a valid rate."""

    name: str
    images: Sequence[Variant]
    offline: Figures = field(default_factory=dict)
    rates: dict[int, Figures] = field(default_factory=dict)

    def search(self) -> Generator[Ask, Figures, None]:
        """Yield the next run and receive its result."""
        self.offline = yield "Offline", 60, 0, SECONDS
        low, most = self.offline["rate"] * LEAST, self.offline["rate"]
        valid: Figures | None = None
        for bound in BOUNDS:
            high = most
            for _ in range(STEPS):
                rate = (low + high) / 2
                for _ in range(2):  # an invalid run is repeated once: a pause of the host is not a limit of the server
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
        cells = [self.name, f"{self.offline['cpu_ms']:.1f}", f"{self.offline['rate']:.1f}"]
        for bound in BOUNDS:
            found = self.rates.get(bound)
            cells += [f"{found['rate']:.1f}", f"{found['p50']:.0f}, {found['p99']:.0f}"] if found else ["none", ""]
        return cells


def rows_of(model: str, images: Sequence[bytes]) -> list[Row]:
    """Return the servers of a model: Lightbox by engine and precision, and the others."""
    networks.convert(model)
    rows = []
    for name in ROWS[model]:
        stack = _stack(model, name)
        rows.append(Row(f"Lightbox, {name}", [Variant(name, stack, common.post_image(model, None, i)) for i in images]))
    rivals = (common.LITSERVE, common.FASTAPI)
    return [*rows, *(Row(name, [common.rival(name, model, image) for image in images]) for name in rivals)]


def _stack(model: str, name: str) -> Stack:
    stack = common.stack(name, SETTINGS[name], model)
    if "INT8" in name:
        return Stack(name, models.quantized(model), stack.settings)
    if "ONNX" in name:
        root = models.MODELS / f"{model}_onnx"
        models.link(root / model / "1" / "model.onnx", networks.convert(model))
        return Stack(name, root, stack.settings)
    return stack


def measure(rows: Sequence[Row]) -> None:
    """Run all searches in turn, a step of each."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        waiting = []
        for number, row in enumerate(rows):
            say.progress(f"starting {row.name}")
            server = running.enter_context(closing(row.images[0].server.start(Path(folder) / str(number))))
            command = _command(row, server, Path(tempfile.mkdtemp(dir=folder)))
            for _ in range(2):  # warm up: the first call loads lazily
                _loadgen(command, ("Offline", 10, 0, 1))
            search = row.search()
            waiting.append((row, server, command, search, next(search)))
        while waiting:
            row, server, command, search, ask = waiting.pop(0)
            figures = _undisturbed(row.name, server, command, ask)
            say.progress(f"{row.name}: {ask[0]}, {ask[1]:.1f}/s, {ask[2]} ms: {figures}")
            with suppress(StopIteration):
                waiting.append((row, server, command, search, search.send(figures)))


def _undisturbed(name: str, server: Running, command: list[str], ask: Ask) -> Figures:
    """Run LoadGen; repeat if foreign processes used more than ``DISTURBED`` of a core.

    Adds the server's CPU ms per image and the others' share of a core. Raises RuntimeError if the disturbance persists.
    """
    for _ in range(REPEATS):
        began, others, cpu = time.perf_counter(), _others(), _cpu(server)
        figures = _loadgen(command, ask)
        figures |= {"cpu_ms": (_cpu(server) - cpu) / figures["images"] * 1000}
        figures |= {"others": (_others() - others) / (time.perf_counter() - began)}
        if figures["others"] <= DISTURBED:
            return figures
        say.progress(f"{name}: again, since other processes took {figures['others']:.2f} of a core")
    raise RuntimeError(f"other processes take more than {DISTURBED} of a core: measure when they do not")


def _cpu(server: Running) -> float:
    return sum(resources.cpu_seconds(server.pid).values())


def _others() -> float:
    """Return the CPU seconds of foreign processes since boot: all but this process and its descendants."""
    times = psutil.cpu_times()
    return float(times.user + times.system) - sum(resources.cpu_seconds(os.getpid(), ended=True).values())


def _command(row: Row, server: Running, folder: Path) -> list[str]:
    """Return the command that posts the images to a server; it writes its files to ``folder``."""
    posts = [image.client for image in row.images if isinstance(image.client, HttpClient)]
    for number, post in enumerate(posts):
        (folder / str(number)).write_bytes(post.body)
    headers = [f"--header={name}: {value}" for name, value in posts[0].headers.items()]
    script, url = REPOSITORY / "scripts" / "loadgen.py", f"{server.address.url}{posts[0].path}"
    command = [VENV / "bin" / "python", script, url, *folder.iterdir(), f"--content-type={posts[0].content_type}"]
    return [*map(str, command), *headers]


def _loadgen(command: list[str], ask: Ask) -> Figures:
    scenario, rate, milliseconds, seconds = ask
    options = [f"--scenario={scenario}", f"--rate={rate}", f"--seconds={seconds}"]
    options += [f"--milliseconds={milliseconds or 1000}"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    if not done.stdout.rstrip().endswith("}"):
        raise RuntimeError(f"loadgen.py: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(names: list[str]) -> None:
    """Measure some models, all of them by default, and print a table for each."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the servers are stopped
    images = [path.read_bytes() for path in photos.write_crops(models.MODELS / "photos", 16, (1024, 768))]
    print(", ".join(f"{name} {value}" for name, value in machine.machine().items()))
    header = ["", "CPU ms an image", "Offline, images/s"]
    for bound in BOUNDS:
        header += [f"images/s at p99 ≤ {bound} ms", "p50, p99 ms"]
    for model in names or ROWS:
        measure(rows := rows_of(model, images))
        print("\n".join(["", f"## {model}", "", *table(header, [row.cells() for row in rows], "lr")]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
