"""Looks for the highest rate that servers answer in time: ``python -m benchmark.highest [MILLISECONDS]``

MLPerf's LoadGen posts a 1024x768 JPEG to each server in turn, in rounds, in scenario Server: a rate is valid if 99 of
100 answers come within the milliseconds, by default 50. EfficientNet-Lite0 is the network of all. `make loadgen` first.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmark import costs, machine, networks, tables
from benchmark.clients.http import HttpClient
from benchmark.declarations import Variant
from benchmark.rivals import network
from benchmark.scenarios import common
from benchmark.servers import REPOSITORY, VENV, Stack
from lightbox.base.telemetry import say

MODEL, MILLISECONDS = "efficientnet_lite0", 50.0
ROUNDS, SECONDS = 3, 5.0
Figures = Mapping[str, Any]
"""Of a run, as scripts/loadgen.py prints them."""


def variants(folder: Path) -> list[Variant]:
    """Return LitServe, and Lightbox in each precision of OpenVINO, for a folder of ``networks.classifiers``."""
    found = [common.rival(common.LITSERVE, **{network.VARIABLE: str(folder / MODEL / "1" / "model.onnx")})]
    for way in costs.ways():
        if way.engine == "openvino":
            name = f"Lightbox, {way}"
            options = {"LIGHTBOX_ENGINE": way.engine, "LIGHTBOX_OPTIONS": json.dumps({"precision": way.precision})}
            stack = Stack(name, folder / MODEL, tuple(options.items()))
            found.append(Variant(name, stack, common.post_image(MODEL)))
    return found


def highest(url: str, client: HttpClient, milliseconds: float, seconds: float, folder: Path) -> Figures:
    """Return the figures of the highest valid rate; if there is none, the rate is 0."""
    body = folder / "body"
    body.write_bytes(client.body)
    command = [str(VENV / "bin" / "python"), str(REPOSITORY / "scripts" / "loadgen.py"), f"{url}{client.path}"]
    command += [str(body), "--highest", "--milliseconds", str(milliseconds), "--seconds", str(seconds)]
    command += ["--content-type", client.content_type]
    command += [word for name, value in client.headers.items() for word in ("--header", f"{name}: {value}")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own script
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found if found["valid"] else found | {"rate": 0.0}


def measured(
    found: Sequence[Variant], milliseconds: float, rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[str, list[Figures]]:
    """Return the figures of each round by variant. Raises ServerFailed."""
    figures: dict[str, list[Figures]] = {variant.name: [] for variant in found}
    with tempfile.TemporaryDirectory(prefix="lb-highest-") as name, ExitStack() as servers:
        urls = {}
        for number, variant in enumerate(found):
            running = servers.enter_context(closing(variant.server.start(Path(name, f"server-{number}"))))
            urls[variant.name] = running.address.url
        for number in range(rounds):
            for variant in found:
                say.progress(f"round {number + 1} of {rounds}: {variant.name}")
                assert isinstance(variant.client, HttpClient)
                one = highest(urls[variant.name], variant.client, milliseconds, seconds, Path(name))
                figures[variant.name].append(one)
                say.progress(", ".join(f"{kind} {one[kind]}" for kind in ("rate", "p50", "p99")))
    return figures


def table(figures: Mapping[str, Sequence[Figures]]) -> list[str]:
    """Return the Markdown table: medians of the rounds, and the rate beside that of the first variant."""
    first = statistics.median(one["rate"] for one in next(iter(figures.values())))
    rows = []
    for name, rounds in figures.items():
        rate, p50, p99 = (statistics.median(one[kind] for one in rounds) for kind in ("rate", "p50", "p99"))
        every = " ".join(tables.number(one["rate"]) for one in rounds)
        rows.append([name, *map(tables.number, (rate, rate / first if first else None, p50, p99)), every])
    return tables.table(["", "images/s", "÷ the first", "p50 ms", "p99", "images/s of each round"], rows)


def main(milliseconds: float) -> None:
    """Measure, and print the table."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the servers are stopped
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:  # keeps TensorFlow out of this one
        folder = apart.submit(networks.classifiers).result()
    described = machine.measured_with()
    print("\n".join([*table(measured(variants(folder), milliseconds)), described]))


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else MILLISECONDS)
