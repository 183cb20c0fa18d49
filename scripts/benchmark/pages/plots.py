"""The plots: stages stacked, distributions of latency, and a line for each variant along a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter

from benchmark.pages.tables import STAGES, number
from benchmark.results import Document

PARTS = [stage for stage in STAGES if stage != "total"]
COLOURS = {
    "queue": "#79706e",
    "receive": "#9ecae9",
    "load": "#8c564b",
    "signature": "#ff9da6",
    "wait": "#17becf",
    "decode": "#4c78a8",
    "preprocess": "#54a24b",
    "encode": "#eeca3b",
    "predict": "#e45756",
    "decode_response": "#f58518",
    "postprocess": "#b279a2",
    "handler": "#9d755d",
    "other": "#1f2d3d",
    "between": "#d3d3d3",
}
Variants = Sequence[Mapping[str, Any]]


def draw_all(document: Document, folder: Path) -> frozenset[str]:
    """Draw what a document has, as SVG and PNG, on all cores; return the names of the files without ending."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = _plots(document)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        drawn = [processes.submit(_draw, draw, what, folder, name) for name, (draw, what) in plots.items()]
        for plot in drawn:
            plot.result()
    return frozenset(plots)


def _plots(document: Document) -> dict[str, tuple[Callable[..., Figure], tuple[Any, ...]]]:
    """Return what draws each plot, and of what, by the name of its file."""
    note = _model_server(document)
    plots: dict[str, tuple[Callable[..., Figure], tuple[Any, ...]]] = {}
    for result in document["scenarios"]:
        for experiment in result["experiments"]:
            if experiment["key"] in result["axes"]:
                continue
            variants = [variant for variant in experiment["variants"] if "p50" in variant]
            if not variants:
                continue
            name = f"{result['key']}_{experiment['key']}"
            if any(variant["stages"] for variant in variants):
                plots[f"{name}_stages"] = (stage_bars, (variants, experiment["title"], note))
            plots[f"{name}_latency"] = (distributions, (variants, experiment["title"], note))
        for key, axis in result["axes"].items():
            points = [experiment for experiment in result["experiments"] if experiment["key"] == key]
            if any("p50" in variant for point in points for variant in point["variants"]):
                plots[f"{result['key']}_{key}"] = (sweep, (points, axis, note))
    return plots


def stage_bars(variants: Variants, title: str, note: str = "") -> Figure:
    """Stack the median stages of each variant; what lies between them and the caller's p50 is grey."""
    figure, axes = _figure(9, 1.6 + 0.45 * len(variants))
    names = [variant["name"] for variant in variants]
    left = [0.0] * len(variants)
    for stage in PARTS:
        widths = [float(variant["stages"].get(stage, 0.0)) for variant in variants]
        if any(widths):
            axes.barh(names, widths, left=left, label=stage, color=COLOURS[stage])
            left = [start + width for start, width in zip(left, widths, strict=True)]
    rest = [max(0.0, variant["p50"] - start) for variant, start in zip(variants, left, strict=True)]
    axes.barh(names, rest, left=left, label="client, network, nginx", color=COLOURS["between"])
    for position, variant in enumerate(variants):
        end = left[position] + rest[position]  # medians of stages may add up to more than the median of the whole
        axes.text(end, position, f" {number(variant['p50'], 'ms')}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(map(sum, zip(left, rest, strict=True))))
    axes.set_xlabel("milliseconds")
    figure.legend(fontsize=7, ncols=5, loc="outside lower center", frameon=False)
    _titles(axes, f"{title}: where the time goes", note)
    return figure


def distributions(variants: Variants, title: str, note: str = "") -> Figure:
    """Draw each variant's distribution of latency: the share of requests answered within a time."""
    figure, axes = _figure(8, 4)
    for variant in variants:
        axes.plot(variant["quantiles"], range(101), label=variant["name"], linewidth=1.6)
    axes.set_xscale("log")
    times = [time for variant in variants for time in variant["quantiles"]]
    steps = (1, 2, 3, 5) if max(times) > 10 * min(times) else (1, 1.5, 2, 3, 4, 5, 7)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("% answered within")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    _titles(axes, f"{title}: latency", note)
    return figure


def sweep(points: Sequence[Mapping[str, Any]], axis: str, note: str = "") -> Figure:
    """Draw p50 with p95 as a band, and throughput, against the axis; both scales are logarithmic."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    latency, throughput = figure.subplots(1, 2)
    for name in dict.fromkeys(variant["name"] for point in points for variant in point["variants"]):
        found = [
            (point["x"], variant)
            for point in points
            for variant in point["variants"]
            if variant["name"] == name and "p50" in variant
        ]
        x = [place for place, _ in found]
        (line,) = latency.plot(x, [variant["p50"] for _, variant in found], marker="o", label=name)
        p50s, p95s = [v["p50"] for _, v in found], [v["p95"] for _, v in found]
        latency.fill_between(x, p50s, p95s, color=line.get_color(), alpha=0.15)
        throughput.plot(x, [variant["throughput"] for _, variant in found], marker="o", label=name)
    for axes, label in ((latency, "ms, p50 to p95"), (throughput, "requests/s")):
        axes.set_xscale("log", base=2 if points[-1]["x"] <= 64 else 10)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
        axes.set_xlabel(axis)
        axes.set_ylabel(label)
        axes.grid(visible=True, which="both", alpha=0.25)
    latency.legend(fontsize=8)
    _titles(latency, axis, note)
    return figure


def _model_server(document: Document) -> str:
    return f"model server: {document['versions']['model server']}; {document['machine']['cores']} cores"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _titles(axes: Axes, title: str, note: str) -> None:
    axes.set_title(f"{title}\n{note}" if note else title, fontsize=10, loc="left")


def _draw(draw: Callable[..., Figure], what: tuple[Any, ...], folder: Path, name: str) -> None:
    figure = draw(*what)
    # The same results give the same file, so that a page that is written anew shows no difference.
    with mpl.rc_context({"svg.hashsalt": "lightbox"}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
