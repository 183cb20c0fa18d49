"""What the hot path must reach, and what it reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmark import results
from benchmark.results import Document
from benchmark.scenarios import client, engine_stacks, load, rest_or_grpc

Measure = Callable[[Document], float | None]


@dataclass(frozen=True)
class Target:
    """A figure and its bound; ``measure`` returns None where the run does not have it."""

    what: str
    bound: float
    at_most: bool
    measure: Callable[[Document], float | None]
    unit: str = ""

    def met(self, value: float) -> bool:
        """Tell whether a value keeps the bound."""
        return value <= self.bound if self.at_most else value >= self.bound


def _rest_or_grpc(document: Document, kind: str, name: str, figure: str) -> float | None:
    value = results.variant(document, "rest_or_grpc", kind, name).get(figure)
    return None if value is None else float(value)


def _over_floor(kind: str) -> Callable[[Document], float | None]:
    return lambda document: _rest_or_grpc(document, kind, rest_or_grpc.WITHOUT_BOTO3, "ratio")


def _infer_over_floor(document: Document) -> float | None:
    value = results.variant(document, "client", client.FORMS, client.JPEG_GRPC).get("ratio")
    return None if value is None else float(value)


def _over_sample_rest(kind: str, name: str) -> Callable[[Document], float | None]:
    def measure(document: Document) -> float | None:
        ours = _rest_or_grpc(document, kind, name, "p50")
        theirs = _rest_or_grpc(document, kind, rest_or_grpc.SAMPLE_REST, "p50")
        return ours / theirs if ours and theirs else None

    return measure


def _saved(kind: str) -> Callable[[Document], float | None]:
    share = _over_sample_rest(kind, rest_or_grpc.LIGHTBOX_GRPC)
    return lambda document: None if (value := share(document)) is None else (value - 1) * 100


def bound_per_second(document: Document) -> float | None:
    """Return the requests a second that the cores allow: preparing and the model's work, nothing else."""
    floor = results.variant(document, "load", "same_network_1", "floor")
    direct = results.variant(document, "load", "same_network_1", load.DIRECT)
    model_ms = direct.get("cpu_ms", {}).get("model server")
    prepare_ms = floor.get("stages", {}).get("decode_cpu")
    if not model_ms or not prepare_ms:
        return None
    return float(document["machine"]["cores"] * 1000 / (prepare_ms + model_ms))


def _of_bound(document: Document) -> float | None:
    bound = bound_per_second(document)
    ours = results.variant(document, "load", "same_network_8", load.LIGHTBOX).get("throughput")
    return ours / bound if ours and bound else None


def _against_litserve(clients: int, figure: str) -> Callable[[Document], float | None]:
    """Compare the best of Lightbox's thread settings and graphs with the better of LitServe's worker counts."""

    def measure(document: Document) -> float | None:
        best = min if figure == "p50" else max
        ours = (load.LIGHTBOX, load.ONE_THREAD, load.FOLDED, load.PIXELS)
        sides = (ours, (load.LITSERVE.name, load.LITSERVE_ONE.name))
        found = [
            [v[figure] for name in names if figure in (v := _same_network(document, clients, name))] for names in sides
        ]
        return float(best(found[0]) / best(found[1])) if all(found) else None

    return measure


def _same_network(document: Document, clients: int, name: str) -> dict[str, Any]:
    return results.variant(document, "load", f"same_network_{clients}", name)


def _engine_against_litserve(clients: int, cost: Callable[[dict[str, Any]], float]) -> Measure:
    """Compare the better of the rows with OpenVINO and equal answers with the better of LitServe's worker counts."""

    def measure(document: Document) -> float | None:
        ours = [name for name in engine_stacks.EQUAL_ANSWERS if name != "Lightbox, engine tensorflow"]
        sides = (ours, [load.LITSERVE.name, load.LITSERVE_ONE.name])
        rows = [[_same_network(document, clients, name) for name in names] for names in sides]
        found = [[cost(row) for row in side if row.get("answers") and cost(row)] for side in rows]
        return min(found[0]) / min(found[1]) if all(found) else None

    return measure


def _cpu(row: dict[str, Any]) -> float:
    return float(sum(row.get("cpu_ms", {}).values()))


def _seconds_each(row: dict[str, Any]) -> float:
    return 1 / row["throughput"] if row.get("throughput") else 0.0


def _p50(row: dict[str, Any]) -> float:
    return float(row.get("p50", 0))


def _faster_than_litserve(document: Document) -> float | None:
    cost = _engine_against_litserve(8, _seconds_each)(document)
    return 1 / cost if cost else None


def _auto_over_floor(document: Document) -> float | None:
    ratio = _same_network(document, 1, engine_stacks.AUTO).get("ratio")
    return None if ratio is None else float(ratio)


def _auto_stack(document: Document) -> dict[str, Any]:
    """Return what is known of the stack with engine auto after all its requests."""
    found = results.scenario(document, "load") or {"servers": []}
    return next((server for server in found["servers"] if server["name"] == engine_stacks.AUTO), {})


def _auto_memory(document: Document) -> float | None:
    pss = _auto_stack(document).get("pss")
    return sum(pss.values()) / 1e6 if pss else None


def _auto_start(document: Document) -> float | None:
    """Seconds to the first 200 of /ping; where the comparison of the engines was made in this run, that is in it."""
    ready = _auto_stack(document).get("started", {}).get("ready")
    return None if ready is None or document["scale"] == "quick" else float(ready)


def _tail_at_half_of_peak(document: Document) -> float | None:
    peak = results.variant(document, "load", "same_network_8", load.LIGHTBOX).get("throughput")
    points = results.experiments(document, "load", "open")
    if not peak or not points:
        return None
    figures = min(points, key=lambda point: abs(point["x"] - peak / 2))["variants"][0]
    return figures["p99"] / figures["p50"] if "p99" in figures else None


def _worker_memory(document: Document) -> float | None:
    """Megabytes of the largest worker of a stack that has answered a thousand photographs and nothing else.

    The default stack answers detections over REST and images of 4000 pixels too, which leave their mark.
    """
    found = results.scenario(document, "load") or {"servers": []}
    stacks = [s for s in found["servers"] if s["name"] == load.ONE_THREAD and s.get("answers", 0) >= 1000]
    return max(stacks[0]["rss"]["gunicorn"]) / 1e6 if stacks else None


def _sidecar_start(document: Document) -> float | None:
    """Seconds of the median start; the sample's handlers bring TensorFlow along, which is not Lightbox's to load.

    A quick run starts several servers at once, and each of them later than it could.
    """
    if document["scale"] == "quick":
        return None
    servers = [server for scenario in document["scenarios"] for server in scenario["servers"]]
    starts = [
        server["started"]["sidecar"]
        for server in servers
        if "sidecar" in server.get("started", {}) and server["name"] not in rest_or_grpc.SAMPLES
    ]
    return statistics.median(starts) if starts else None


TARGETS = (
    Target("p50 of /invocations, gRPC, mobilenet_v2, one client ÷ floor", 1.10, True, _over_floor("classification")),
    Target("p50 of the gRPC front's ModelInfer, one JPEG, one client ÷ floor", 1.10, True, _infer_over_floor),
    Target(
        "p50 of /invocations, REST ÷ the sample's REST handler",
        0.15,
        True,
        _over_sample_rest("classification", rest_or_grpc.LIGHTBOX_REST),
    ),
    Target("gRPC against the sample's REST handler, classification", -92, True, _saved("classification"), "%"),
    Target("gRPC against the sample's REST handler, detection", -95, True, _saved("detection"), "%"),
    Target("efficientdet_d1, gRPC, the outputs needed ÷ floor", 1.08, True, _over_floor("detection")),
    Target("throughput at 8 clients ÷ the bound that the cores set", 0.90, False, _of_bound),
    Target("p50 at one client ÷ LitServe + ONNX Runtime, each at its best", 1.0, True, _against_litserve(1, "p50")),
    Target(
        "throughput at 8 clients ÷ LitServe + ONNX Runtime, each at its best",
        1.0,
        False,
        _against_litserve(8, "throughput"),
    ),
    Target(
        "OpenVINO, CPU an image at 8 clients ÷ LitServe + ONNX Runtime", 0.70, True, _engine_against_litserve(8, _cpu)
    ),
    Target(
        "OpenVINO, p50 at one client ÷ LitServe + ONNX Runtime",
        0.80,
        True,
        _engine_against_litserve(1, _p50),
    ),
    Target("OpenVINO, images/s at 8 clients ÷ LitServe + ONNX Runtime", 1.35, False, _faster_than_litserve),
    Target("engine auto, p50 at one client ÷ floor with TensorFlow", 0.6, True, _auto_over_floor),
    Target("engine auto, memory of all with two workers", 350, True, _auto_memory, "MB"),
    Target("engine auto, start to ready", 2.0, True, _auto_start, "s"),
    Target("p99 ÷ p50 at the rate nearest half of peak load, open loop", 2.0, True, _tail_at_half_of_peak),
    Target("largest worker after 1,000 requests", 110, True, _worker_memory, "MB"),
    Target("sidecar start, model server aside, median of the stacks", 1.5, True, _sidecar_start, "s"),
)
