"""Draws the pictures: bars of stages or of CPU time, and lines along a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark import results
from benchmark.pages.tables import number
from benchmark.results import Document

if TYPE_CHECKING:  # it takes long to import, and most callers draw nothing
    from matplotlib.figure import Figure

OUTSIDE = "client, network, nginx"
"""The time of a caller beside the stages that the server reports; drawn last."""
OTHERS, VISIBLE = "others", 0.02
"""The name of all parts under this share of the longest bar."""
Variants = Sequence[Mapping[str, Any]]


def draw(document: Document, folder: Path) -> frozenset[str]:
    """Draw an SVG picture for each scenario in the document; return the scenarios' keys."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    drawn = set()
    for key, (experiment, picture) in PICTURES.items():
        if points := results.experiments(document, key, experiment):
            # The same results give the same file, so that a rewritten page shows no difference.
            with mpl.rc_context({"svg.hashsalt": "lightbox"}):
                picture(points).savefig(folder / f"{key}.svg", metadata={"Date": None})
            drawn.add(key)
    return frozenset(drawn)


def new_figure(**options: Any) -> Figure:
    """Return an empty picture."""
    from matplotlib.figure import Figure

    return Figure(**options, layout="constrained")


def stage_bars(variants: Variants, title: str, note: str = "") -> Figure:
    """Stack the median stages of each variant; the rest of the caller's p50 is grey."""
    parts = []
    for variant in variants:
        stages = {name: value for name, value in variant["stages"].items() if name != "total"}
        # The medians of the stages can add up to more than the median of the request.
        parts.append(stages | {OUTSIDE: max(0.0, variant["p50"] - sum(stages.values()))})
    ends = [number(variant["p50"], "ms") for variant in variants]
    return _bars([variant["name"] for variant in variants], parts, ends, f"{title}: where the time goes\n{note}")


def cpu_bars(variants: Variants, title: str) -> Figure:
    """Stack the CPU time of a request by process."""
    parts = [variant["cpu_ms"] for variant in variants]
    ends = [number(sum(part.values()), "ms") for part in parts]
    return _bars([variant["name"] for variant in variants], parts, ends, f"{title}: processor time of an image")


def _bars(names: Sequence[str], parts: Sequence[Mapping[str, float]], ends: Sequence[str], title: str) -> Figure:
    figure = new_figure(figsize=(9, 1.6 + 0.4 * len(names)))
    axes = figure.subplots()
    left = [0.0] * len(names)
    longest = max(sum(found.values()) for found in parts)
    parts = [_joined(found, longest * VISIBLE) for found in parts]
    shown = sorted(dict.fromkeys(part for found in parts for part in found), key=lambda part: part in (OTHERS, OUTSIDE))
    for part in shown:
        widths = [found.get(part, 0.0) for found in parts]
        axes.barh(names, widths, left=left, label=part, color="lightgrey" if part == OUTSIDE else None)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for position, (end, text) in enumerate(zip(left, ends, strict=True)):
        axes.text(end, position, f" {text}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(left))
    axes.set_xlabel("milliseconds")
    figure.legend(fontsize=7, ncols=5, loc="outside lower center", frameon=False)
    axes.set_title(title.strip(), fontsize=10, loc="left")
    return figure


def _joined(parts: Mapping[str, float], least: float) -> dict[str, float]:
    """Return a bar's parts, with those under ``least`` joined into one."""
    large = {name: width for name, width in parts.items() if width >= least or name == OUTSIDE}
    return large | {OTHERS: sum(parts.values()) - sum(large.values())}


def sweep(points: Sequence[Mapping[str, Any]], axis: str) -> Figure:
    """Draw throughput of each variant against the axis."""
    figure = new_figure(figsize=(8, 3.5))
    axes = figure.subplots()
    for name in dict.fromkeys(variant["name"] for point in points for variant in point["variants"]):
        rows = [
            (point["x"], row) for point in points for row in point["variants"] if row["name"] == name and "p50" in row
        ]
        axes.plot([x for x, _ in rows], [row["throughput"] for _, row in rows], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(axis)
    axes.set_ylabel("requests/s")
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=8)
    return figure


def _answered(point: Mapping[str, Any]) -> Variants:
    return [variant for variant in point["variants"] if "p50" in variant]


PICTURES: dict[str, tuple[str, Callable[[Sequence[Mapping[str, Any]]], Figure]]] = {
    "rest_or_grpc": ("classification", lambda points: stage_bars(_answered(points[0]), points[0]["title"])),
    "load": ("same_network_8", lambda points: cpu_bars(_answered(points[0]), points[0]["title"])),
    "scale": ("concurrency", lambda points: sweep(points, "clients at once")),
}
"""The experiment of each scenario that is drawn, and how."""
