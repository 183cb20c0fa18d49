"""Ratios of two figures, and the targets of some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmark.declarations import BOUND
from benchmark.results import Document, experiments
from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE
from benchmark.scenarios.scale import TRANSPORTS

UNITS = {"throughput": "requests/s", "p50": "ms (p50)", "p99": "ms (p99)", "cpu": "ms of CPU"}
Rows = tuple[str, ...]


@dataclass(frozen=True)
class Ratio:
    """The figure of a row divided by the best of theirs, in experiment ``key`` of a scenario; ``target`` bounds it.

    In a sweep ``x`` is the position on the axis. A target is the maximum for CPU time or latency, the minimum for
    throughput.
    """

    what: str
    figure: str
    scenario: str
    key: str
    ours: str
    theirs: Rows
    target: float | None = None
    x: float | None = None

    @property
    def less_is_better(self) -> bool:
        """Whether lower is better."""
        return self.figure != "throughput"

    def met(self, value: float) -> bool:
        """Return whether a value meets the target."""
        return self.target is None or (value <= self.target if self.less_is_better else value >= self.target)

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
        rows = [
            (value, str(row["name"]))
            for point in experiments(document, self.scenario, self.key)
            for row in point["variants"]
            if self.x in (None, point["x"]) and (value := self._figure(row))
        ]
        best = min if self.less_is_better else max
        found = [[row for row in rows if row[1] in names] for names in ((self.ours,), self.theirs)]
        return [best(side) for side in found] if all(found) else None

    def _figure(self, row: dict[str, Any]) -> float:
        return sum(row["cpu_ms"].values()) if self.figure == "cpu" else float(row.get(self.figure, 0.0))


def _beside(clients: int, figure: str, theirs: Rows, target: float) -> Ratio:
    what = f"mobilenet_v2, {clients} client{'s' if clients > 1 else ''}"
    return Ratio(what, figure, "load", f"same_network_{clients}", AUTO, theirs, target)


POSTED, MODEL_INFER, BASE64 = "JPEG on /invocations, REST", "JPEG as BYTES, gRPC", "JPEG as base64 in JSON, REST"
RATIOS = (
    _beside(1, "cpu", (BOUND,), 1.10),
    _beside(8, "cpu", (BOUND,), 1.10),
    _beside(1, "p50", (LITSERVE,), 0.80),
    _beside(8, "throughput", (LITSERVE,), 1.35),
    _beside(8, "cpu", (LITSERVE,), 0.70),
    _beside(8, "throughput", (FASTAPI, BENTOML), 1.10),
    _beside(8, "p99", (FASTAPI,), 1.00),
    Ratio("Inside", "p50", "wire", "inside", "float32 tensor, REST", ("float32 tensor, gRPC",), 1.5),
    Ratio("From the client", "p50", "wire", "from_caller", BASE64, (POSTED,)),
    Ratio("From the client", "p50", "wire", "from_caller", MODEL_INFER, (POSTED,)),
    Ratio("8 clients at once", "throughput", "scale", "concurrency", TRANSPORTS["rest"], (TRANSPORTS["grpc"],), x=8),
)
HEADLINES = (RATIOS[1], RATIOS[5], RATIOS[7])
"""Those that stand above all pages."""
