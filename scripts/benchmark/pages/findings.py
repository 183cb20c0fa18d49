"""What a scenario's figures say, in sentences made from the figures themselves."""

from __future__ import annotations

from collections.abc import Callable

from benchmark import published, results
from benchmark.pages.tables import number, size
from benchmark.results import Document
from benchmark.scenarios import client, common, engine_stacks, load, rest_or_grpc, scale, wire
from benchmark.targets import bound_per_second


def of(document: Document, key: str) -> list[str]:
    """Return the findings of a scenario; fewer where a variant gave no figure."""
    return _FINDINGS[key](document)


def _rest_or_grpc(document: Document) -> list[str]:
    lines = []
    for kind in rest_or_grpc.KINDS:
        names = (
            rest_or_grpc.SAMPLE_REST,
            rest_or_grpc.SAMPLE_GRPC,
            rest_or_grpc.LIGHTBOX_REST,
            rest_or_grpc.LIGHTBOX_GRPC,
        )
        averages = [results.variant(document, "rest_or_grpc", kind, name).get("average") for name in names]
        if None in averages:
            continue
        theirs = published.AWS_STUDY[kind]
        lines.append(
            f"{kind}, average: the sample's REST handler {number(averages[0], 'ms')} and gRPC handler "
            f"{number(averages[1], 'ms')} (published: {number(theirs[names[0]], 'ms')} and "
            f"{number(theirs[names[1]], 'ms')}); Lightbox over REST {number(averages[2], 'ms')} "
            f"and over gRPC {number(averages[3], 'ms')}."
        )
        floor, sample = (
            results.variant(document, "rest_or_grpc", kind, name).get("p50") for name in (common.FLOOR, names[0])
        )
        if floor and sample:
            lines.append(
                f"{kind}: the floor alone takes {number(floor / sample)} of the sample's REST handler's time (p50). "
                "A ratio to that handler cannot be much lower."
            )
    return lines


def _wire(document: Document) -> list[str]:
    lines = []
    for form in wire.FORMS:
        rest, grpc = (results.variant(document, "wire", "forms", f"{form}, {name}") for name in ("REST", "gRPC"))
        if "p50" not in rest or "p50" not in grpc:
            continue
        sent = [max((there for there, _ in v.get("hops", {}).values()), default=None) for v in (rest, grpc)]
        lines.append(
            f"{form}: REST takes {number(rest['p50'] / grpc['p50'])} times as long as gRPC "
            f"({number(rest['p50'], 'ms')} and {number(grpc['p50'], 'ms')}); the largest transfer of a hop is "
            f"{size(sent[0])} and {size(sent[1])}."
        )
    return lines


def _client(document: Document) -> list[str]:
    lines = []
    for where in client.SIZES:
        for key, tables, whose in (
            (f"echo_{where}", published.CLIENT_STUDY_ECHO, "the echo servers"),
            (f"lightbox_{where}", published.CLIENT_STUDY_TORCHSERVE, "Lightbox with a model"),
        ):
            found = results.experiments(document, "client", key)
            if not found:
                continue
            pairs = [
                f"{variant['name']} {number(variant['average'])} ({number(tables[where].get(variant['name']))})"
                for variant in found[0]["variants"]
                if "average" in variant
            ]
            lines.append(
                f"{where}, {whose}, ms for twenty simultaneous requests, published in brackets: {'; '.join(pairs)}."
            )
    if lines:
        lines.append(f"Published: tables 1 to 6 of <{published.CLIENT_STUDY}>.")
    return lines + _protocol_forms(document)


def _protocol_forms(document: Document) -> list[str]:
    found = results.experiments(document, "client", client.FORMS)
    averages = {v["name"]: v["average"] for v in found[0]["variants"] if "average" in v} if found else {}
    if not averages:
        return []
    measured = "; ".join(f"{name} {number(average)}" for name, average in averages.items())
    theirs = "; ".join(f"{name} {number(average)}" for name, average in published.PROTOCOL_FORMS.items())
    ratio = results.variant(document, "client", client.FORMS, client.JPEG_GRPC).get("ratio")
    return [
        f"One image by the Open Inference Protocol, average ms: {measured}. Published for OpenVINO Model Server and a "
        f"ResNet-50: {theirs} (<{published.PROTOCOL_PAGES}>).",
        f"p50 of ModelInfer with one JPEG ÷ floor: {number(ratio)}.",
    ]


def _load(document: Document) -> list[str]:
    lines = []
    for form in ("base64", "binary"):
        theirs = results.variant(document, "load", f"study_{form}", load.FASTAPI.name)
        auto, tensorflow = (
            results.variant(document, "load", f"study_{form}", name) for name in (engine_stacks.AUTO, load.LIGHTBOX)
        )
        if all("throughput" in variant for variant in (theirs, auto, tensorflow)):
            lines.append(
                f"{form}, {load.STUDY_CLIENTS} clients: Lightbox with engine auto, as `make serve` starts it, "
                f"{number(auto['throughput'])} requests/s, with engine tensorflow {number(tensorflow['throughput'])}; "
                f"FastAPI + ONNX Runtime {number(theirs['throughput'])}."
            )
    bound = bound_per_second(document)
    ours = results.variant(document, "load", "same_network_8", load.LIGHTBOX)
    if bound and "throughput" in ours:
        lines.append(
            f"mobilenet_v2: image preparation and the model's work allow at most {number(bound)} requests/s on these "
            f"cores; with 8 clients Lightbox reaches {number(ours['throughput'])}."
        )
    lines += _per_core(document)
    study = published.LOAD_STUDY_ONNX
    lines.append(
        f"Published for FastAPI + ONNX Runtime, 4 workers on 4 cores: {study['throughput']} requests/s, "
        f"{study['average']} ms, {study['memory_mb']} MB, {study['start']} s to start (<{published.LOAD_STUDY}>)."
    )
    return lines


def _per_core(document: Document) -> list[str]:
    """Return images a second for a core: a second divided by the processor time of a request, the client's aside."""
    lines = []
    networks = {"same_network_8": engine_stacks.MODEL}
    networks |= {f"engines_{model}": name for model, name in engine_stacks.MODELS.items()}
    for key, name in networks.items():
        rates = _rates(document, key)
        shown = [f"{row.removeprefix('Lightbox, ')} {number(rate)}" for row, rate in rates.items() if "engine" in row]
        shown += [f"{row} {number(rate)}" for row, rate in rates.items() if "ONNX" in row]
        if any("engine" in row for row in rates):
            lines.append(f"{name}, images a second for a core, with decoding of the 1024x768 JPEG: {'; '.join(shown)}.")
    rates = _rates(document, engine_stacks.PREPARED)
    pairs = []
    for (model, precision), (alone, served) in published.OPENVINO_PER_CORE.items():
        if ours := rates.get(engine_stacks.prepared_row(model, precision)):
            theirs = f"OpenVINO {number(alone)}" + (f", through its model server {number(served)}" if served else "")
            pairs.append(f"{model} {precision} {number(ours)} ({theirs})")
    if pairs:
        lines.append(
            f"Prepared tensors over HTTP, requests a second for a core; published for a Xeon Platinum 8260M, in "
            f"brackets (<{published.OPENVINO_PAGE}>): {'; '.join(pairs)}."
        )
    return lines


def _rates(document: Document, key: str) -> dict[str, float]:
    rows = [row for found in results.experiments(document, "load", key) for row in found["variants"]]
    costs = {row["name"]: sum(row.get("cpu_ms", {}).values()) for row in rows if row.get("answers")}
    return {name: 1000 / cost for name, cost in costs.items() if cost}


def _scale(document: Document) -> list[str]:
    lines = []
    for key, axis in scale.AXES.items():
        points = results.experiments(document, "scale", key)
        ends = [points[0], points[-1]] if points else []
        figures = [point["variants"][0] for point in ends]
        if len(figures) == 2 and all("p50" in figure for figure in figures):
            lines.append(
                f"{axis}: from {ends[0]['x']:,.0f} to {ends[1]['x']:,.0f} p50 changes from "
                f"{number(figures[0]['p50'], 'ms')} to {number(figures[1]['p50'], 'ms')} ({figures[0]['name']})."
            )
    return lines


_FINDINGS: dict[str, Callable[[Document], list[str]]] = {
    "rest_or_grpc": _rest_or_grpc,
    "wire": _wire,
    "client": _client,
    "load": _load,
    "scale": _scale,
}
