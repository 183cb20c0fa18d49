"""Ratios of two figures: the headline sentences of each page, and the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmark import results
from benchmark.declarations import BOUND
from benchmark.results import Document
from benchmark.scenarios.common import AUTO, BENTOML, EQUAL_ANSWERS, FASTAPI, LITSERVE
from benchmark.scenarios.load import EQUAL_RESIZE, LITSERVE_ONE
from benchmark.scenarios.rest_or_grpc import LIGHTBOX_GRPC, LIGHTBOX_REST, SAMPLE_REST
from benchmark.scenarios.scale import WIRES

UNITS = {"throughput": "requests/s", "p50": "ms", "p99": "ms", "cpu": "ms of CPU"}
Rows = tuple[str, ...]


@dataclass(frozen=True)
class Ratio:
    """The figure of our best row divided by theirs, in experiment ``key`` of a scenario.

    In a sweep ``places`` are our and their positions on the axis.
    """

    what: str
    figure: str
    scenario: str
    key: str
    ours: Rows
    theirs: Rows
    places: tuple[float, float] | None = None

    @property
    def less_is_better(self) -> bool:
        """Whether lower is better."""
        return self.figure != "throughput"

    def value(self, document: Document) -> float | None:
        """Return the ratio, None if the run lacks a figure."""
        found = self._both(document)
        return found[0][0] / found[1][0] if found else None

    def sentence(self, document: Document, number: Callable[[float], str]) -> str:
        """Return both figures and the ratio as a sentence, "" if the run lacks a figure."""
        found = self._both(document)
        if not found:
            return ""
        (ours, name), (theirs, other) = found
        figures = f"{number(ours)} {UNITS[self.figure]} with {name}; {number(theirs)} with {other}"
        return f"{self.what}: {figures} (ratio {number(ours / theirs)})."

    def _both(self, document: Document) -> list[tuple[float, str]] | None:
        sides = zip((self.ours, self.theirs), self.places or (None, None), strict=True)
        found = [self._best(document, names, place) for names, place in sides]
        return [each for each in found if each] if all(found) else None

    def _best(self, document: Document, names: Rows, place: float | None) -> tuple[float, str] | None:
        rows = [
            (value, row["name"] if place is None else f"{row['name']} at {place:g}")
            for point in results.experiments(document, self.scenario, self.key)
            for row in point["variants"]
            if row["name"] in names and place in (None, point["x"]) and (value := self._figure(row))
        ]
        return (min if self.less_is_better else max)(rows, default=None)

    def _figure(self, row: dict[str, Any]) -> float:
        return sum(row["cpu_ms"].values()) if self.figure == "cpu" else float(row.get(self.figure, 0.0))


GRPC, REST = (WIRES["grpc"],), (WIRES["rest"],)
ENGINES = tuple(name for name in EQUAL_ANSWERS if "tensorflow" not in name)
LITSERVES = (LITSERVE, LITSERVE_ONE)
POSTED, MODEL_INFER, BASE64 = "JPEG on /invocations, REST", "JPEG as BYTES, gRPC", "JPEG as base64 in JSON, REST"


def _study(form: str, theirs: Rows, ours: str = AUTO, figure: str = "throughput") -> Ratio:
    return Ratio(f"MobileNetV3Small, 50 clients, {form}", figure, "load", f"study_{form}", (ours,), theirs)


def _bound(clients: int) -> Ratio:
    what = f"An image of mobilenet_v2, {clients} client{'s' if clients > 1 else ''}"
    return Ratio(what, "cpu", "load", f"same_network_{clients}", (AUTO,), (BOUND,))


def _litserve(figure: str, clients: int) -> Ratio:
    return Ratio("mobilenet_v2", figure, "load", f"same_network_{clients}", ENGINES, LITSERVES)


def _inside(key: str, ours: str, theirs: str) -> Ratio:
    return Ratio(key.capitalize(), "p50", "rest_or_grpc", key, (ours,), (theirs,))


BASE64_STUDY, BINARY_STUDY = _study("base64", (FASTAPI,)), _study("binary", (FASTAPI, LITSERVE, BENTOML))
CLASSIFY, DETECT = (_inside(key, LIGHTBOX_GRPC, SAMPLE_REST) for key in ("classification", "detection"))
FLOATS = Ratio("Inside", "p50", "wire", "inside", ("float32 tensor, REST",), ("float32 tensor, gRPC",))

SENTENCES: dict[str, tuple[Ratio, ...]] = {
    "README": (BASE64_STUDY, _bound(8), CLASSIFY),
    "rest_or_grpc": (CLASSIFY, DETECT, _inside("classification", LIGHTBOX_REST, LIGHTBOX_GRPC)),
    "wire": (
        FLOATS,
        Ratio("From the client", "p50", "wire", "from_caller", (BASE64,), (POSTED,)),
        Ratio("From the client", "p50", "wire", "from_caller", (MODEL_INFER,), (POSTED,)),
    ),
    "load": (BASE64_STUDY, BINARY_STUDY, _bound(8)),
    "scale": (
        Ratio("Clients at once", "throughput", "scale", "concurrency", REST, GRPC, (8, 8)),
        Ratio("Clients at once", "throughput", "scale", "concurrency", GRPC, GRPC, (64, 8)),
        Ratio("Loaded models", "p50", "scale", "models", ("Lightbox gRPC",), ("Lightbox gRPC",), (100, 1)),
    ),
}


@dataclass(frozen=True)
class Target:
    """A ratio and its bound: the maximum for CPU time or latency, the minimum for throughput."""

    what: str
    bound: float
    ratio: Ratio

    def met(self, value: float) -> bool:
        """Return whether a value meets the bound."""
        return value <= self.bound if self.ratio.less_is_better else value >= self.bound


TARGETS = (
    Target("CPU of an image ÷ the bound, mobilenet_v2, engine auto, 1 client", 1.10, _bound(1)),
    Target("the same, 8 clients", 1.10, _bound(8)),
    Target("requests/s ÷ FastAPI's, 50 clients, base64, with the better resize", 1.10, BASE64_STUDY),
    Target("the same, with the graph's resize", 1.25, _study("base64", (FASTAPI,), EQUAL_RESIZE)),
    Target("p99 ÷ FastAPI's, 50 clients, base64", 1.0, _study("base64", (FASTAPI,), figure="p99")),
    Target("requests/s ÷ the best other's, 50 clients, binary", 1.10, BINARY_STUDY),
    Target("CPU of an image ÷ LitServe's best, mobilenet_v2, 8 clients", 0.70, _litserve("cpu", 8)),
    Target("p50, gRPC inside ÷ the sample's REST handler, detection", 0.06, DETECT),
    Target("the same, classification", 0.20, CLASSIFY),
    Target("p50 ÷ LitServe's best, mobilenet_v2, 1 client", 0.80, _litserve("p50", 1)),
    Target("requests/s ÷ LitServe's best, mobilenet_v2, 8 clients", 1.35, _litserve("throughput", 8)),
    Target("p50, REST inside ÷ gRPC inside, float32 224x224", 1.5, FLOATS),
)
