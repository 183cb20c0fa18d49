"""Measures what a request costs, and how much of a core's peak a model uses: ``python -m benchmark.costs [PAGE]``

Three classifiers answer a 1024x768 JPEG in an endpoint, and in this process with one thread on each core. The tables
go into PAGE, by default docs/what-it-costs.md, in place of those that are there.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lightbox
from benchmark import machine, networks, photos, resources, tables
from benchmark.scenarios import common
from benchmark.servers import REPOSITORY, Running, Stack
from lightbox.base.telemetry import say
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware, has_bf16
from lightbox.model_runtime.engines.openvino.compiled import imported
from lightbox.model_runtime.engines.samples import batches
from lightbox.tools.harness.http_client import Client
from lightbox.tools.model_zoo.onnx_file import OnnxGraph

PAGE = REPOSITORY / "docs" / "what-it-costs.md"
REQUESTS, WARM_UP, ROUNDS, SECONDS = 300, 30, 3, 1.0
"""``SECONDS`` of each round are for a model alone, and as many for it behind a JPEG."""
SIDES, PRODUCTS = (512, 1024, 2048), 4
"""Of the matrices whose products show the peak, and how many follow each other."""
STAGES = ("nginx", "read, decode", "resize", "wire", "model", "answer", "rest")
_READ, _RESIZE, _WIRE, _ANSWER = ("receive", "decode"), ("preprocess",), ("encode", "decode_response"), ("postprocess",)
"""The stages of the log line that a column sums up."""
_SECTION = re.compile(r"(<!-- make costs -->).*?(<!-- end -->)", re.DOTALL)
_MARK = re.compile(r" (\w+)_ms=([\d.]+)")


class Way(NamedTuple):
    """An engine and its precision."""

    engine: str
    precision: str

    def __str__(self) -> str:
        return f"{self.engine} {self.precision}"


class Core(NamedTuple):
    """CPU time of an image on one core: of the model alone, and from the JPEG to the answer in this process, in ms."""

    alone: float
    loaded: float


class Figures(NamedTuple):
    """A model in one way: the FLOP of an image, the most FLOP/s of a core, and CPU times in ms."""

    model: str
    way: Way
    flops: float
    peak: float
    core: Core
    stages: Mapping[str, float]
    """Of a request to an endpoint."""

    @property
    def rate(self) -> float:
        """The FLOP/s of the model alone."""
        return self.flops / self.core.alone * 1e3

    @property
    def request(self) -> float:
        """The CPU time of a request to an endpoint in all processes, in ms."""
        return sum(self.stages.values())


def ways() -> list[Way]:
    """Return what is measured on this processor."""
    return [Way("openvino", "f32"), *([Way("openvino", "bf16")] if has_bf16() else []), Way("onnxruntime", "f32")]


# ------------------------------------------------------------------ in a process of its own


def opened(folder: Path, way: Way) -> Runner:
    """Return a version's folder in one thread, as a model server opens it. Raises StatusError."""
    hardware = Hardware(1, 1, way.precision)
    return named(way.engine).open(str(folder), OpenOptions(hardware, ("serve",))).runner


def milliseconds(call: Callable[[], object], seconds: float = SECONDS) -> float:
    """Return the median CPU time of a call, without the first three."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < 4 or time.monotonic() < end:
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times[3:]) * 1e3


def alone(folder: Path, way: Way, seconds: float = SECONDS) -> float:
    """Return the CPU time of a model for one row of pixels, in ms."""
    runner = opened(folder, way)
    ((_, signature),) = runner.signatures.items()
    feeds, fetches = batches(signature, 1)[1], [info.name for info in signature.outputs.values()]
    return milliseconds(lambda: runner.run(feeds, fetches), seconds)


def on_one_core(folder: Path, way: Way) -> Core:
    """Return the figures of a model's folder."""
    model, photo = lightbox.load(folder, threads=1, **way._asdict()), photos.photo()
    return Core(alone(folder / "1", way), milliseconds(lambda: model.predict(photo)))


def peak(way: Way, sides: Sequence[int] = SIDES, seconds: float = SECONDS) -> float:
    """Return the most FLOP/s of one core: of products of square matrices, which the engine computes in a model."""
    best = 0.0
    for side in sides:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(matrix_products(side))
            best = max(best, PRODUCTS * 2 * side**3 / alone(Path(folder), way, seconds) * 1e3)
    return best


def matrix_products(side: int) -> bytes:
    """Return an ONNX file that multiplies a matrix [side, side] of each row by constant ones, and sums the columns."""
    graph = OnnxGraph("matrix", (side, side), np.dtype(np.float32))
    values = graph.input
    for number in range(PRODUCTS):
        matrix = np.random.default_rng(number).standard_normal((side, side)) / np.sqrt(side)
        values = graph.node("MatMul", values, graph.constant(matrix.astype(np.float32)))
    return graph.file("sums", graph.node("ReduceMean", values, axes=[1], keepdims=0), side, {})


def operations(file: Path) -> float:
    """Return the floating-point operations of a network for one row: two of each product and sum of a convolution or a
    matrix product."""
    model = imported().Core().read_model(file)
    model.reshape({port.any_name: [1, *list(port.partial_shape)[1:]] for port in model.inputs})
    count = 0
    for node in model.get_ops():
        kernel = {"Convolution": 1, "GroupConvolution": 2}.get(node.get_type_name())
        if kernel:
            count += 2 * prod(node.output(0).shape) * prod(list(node.input_value(1).shape)[kernel:])
        elif node.get_type_name() == "MatMul":
            length = list(node.input_value(0).shape)[-2 if node.get_attributes()["transpose_a"] else -1]
            count += 2 * prod(node.output(0).shape) * length
    return float(count)


# ------------------------------------------------------------------ an endpoint


def of_endpoint(running: Running, model: str, requests: int = REQUESTS) -> tuple[dict[str, float], dict[str, float]]:
    """Post images one after another. Return the CPU time of a request by process, and the median of each stage of the
    log, in ms."""
    headers = {"Content-Type": common.IMAGE, common.ATTRIBUTES: common.attributes(model)}
    lines: list[str] = []

    def is_logged() -> bool:
        lines[:] = [line for line in running.server.log.splitlines() if f"route=/invocations model={model} " in line]
        return len(lines) >= requests + WARM_UP

    with Client(running.address.port) as client:
        for number in range(WARM_UP + requests):
            if number == WARM_UP:
                before = resources.cpu_seconds(running.pid)
            response = client.send("POST", "/invocations", photos.photo(), headers)
            assert response.status == 200, response.body
    used = resources.cpu_seconds(running.pid)
    running.server.wait_until(is_logged)
    return {role: (used[role] - before.get(role, 0.0)) / requests * 1e3 for role in used}, medians(lines[WARM_UP:])


def medians(lines: Sequence[str]) -> dict[str, float]:
    """Return the median of each stage of requests' log lines, in ms; a line without it has 0."""
    found = [{name: float(value) for name, value in _MARK.findall(line)} for line in lines]
    names = {name for stages in found for name in stages}
    return {name: statistics.median(stages.get(name, 0.0) for stages in found) for name in names}


def by_stage(cpu: Mapping[str, float], stages: Mapping[str, float], nothing: float) -> dict[str, float]:
    """Return the ms of ``STAGES``, which add up to those of all processes.

    ``nothing`` is what the model server takes for a network that computes nothing. That counts for the wire, and what
    the other processes take beyond their stages for the rest.
    """

    def of(names: Sequence[str]) -> float:
        return sum(stages.get(name, 0.0) for name in names)

    model = cpu.get("model server", 0.0) - nothing
    known = [cpu.get("nginx", 0.0), of(_READ), of(_RESIZE), of(_WIRE) + nothing, model, of(_ANSWER)]
    return dict(zip(STAGES, [*known, sum(cpu.values()) - sum(known)], strict=True))


# ------------------------------------------------------------------ the page


def figures(folder: Path, rounds: int = ROUNDS) -> list[Figures]:
    """Measure each model in a folder, which has ``networks.NOTHING`` beside them. Raises ServerFailed."""
    names = sorted({path.name for path in folder.iterdir()} - {networks.NOTHING})
    cores = available_cores()
    kinds = [(name, way) for way in ways() for name in names]
    peaks: dict[Way, list[float]] = {way: [] for way in ways()}
    in_process: dict[tuple[str, Way], list[Core]] = {kind: [] for kind in kinds}
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for number in range(rounds):
            say.progress(f"in process, round {number + 1} of {rounds}")
            for way, most in peaks.items():
                most.extend(pool.map(peak, [way] * cores))
            for (name, way), each in in_process.items():
                each.extend(pool.map(on_one_core, [folder / name] * cores, [way] * cores))
    core = {kind: Core(*map(statistics.median, zip(*each, strict=True))) for kind, each in in_process.items()}
    found = []
    for way in ways():
        say.progress(f"an endpoint with {way}")
        options = {"LIGHTBOX_ENGINE": way.engine, "LIGHTBOX_OPTIONS": json.dumps({"precision": way.precision})}
        stack = Stack(str(way), folder, (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", names[0]), *options.items()))
        with tempfile.TemporaryDirectory(prefix="lb-costs-") as place, closing(stack.start(Path(place))) as running:
            nothing = of_endpoint(running, networks.NOTHING)[0]["model server"]
            for name in names:
                stages = by_stage(*of_endpoint(running, name), nothing)
                flops = operations(folder / name / "1" / "model.onnx")
                found.append(Figures(name, way, flops, max(peaks[way]), core[name, way], stages))
    return found


def page_tables(found: Iterable[Figures]) -> list[str]:
    """Return the lines of both tables: a row for each model and way."""
    rows = sorted(found, key=lambda one: one.flops)
    number = tables.number
    present = {one.model: one.request for one in rows if one.way == ways()[0]}
    stages = [
        [one.model, str(one.way), *map(number, (*one.stages.values(), one.request, one.request / present[one.model]))]
        for one in rows
    ]
    rates = []
    for one in rows:
        speeds = (number(each / 1e9) for each in (one.flops, one.rate, one.peak))
        images = (number(1e3 / each) for each in (*one.core, one.request))
        rates.append([one.model, str(one.way), *speeds, f"{one.rate / one.peak:.0%}", *images])
    columns = ["GFLOP", "GFLOP/s", "peak", "share", "model alone", "`lightbox.load`", "endpoint"]
    return [
        *tables.table(["ms of CPU", "engine", *STAGES, "all", f"÷ {ways()[0]}"], stages, "llr"),
        *tables.table(["images/s a core", "engine", *columns], rates, "llr"),
    ]


def written(page: str, lines: Sequence[str]) -> str:
    """Return a page with these lines between its marks."""
    return _SECTION.sub(lambda found: "\n\n".join([found[1], "\n".join(lines).strip(), found[2]]), page)


def main(page: Path) -> None:
    """Measure, and write the tables."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:  # keeps TensorFlow out of this one
        folder = apart.submit(networks.classifiers).result()
    measured_with = machine.measured_with()
    page.write_text(written(page.read_text(), [*page_tables(figures(folder)), measured_with]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PAGE)
