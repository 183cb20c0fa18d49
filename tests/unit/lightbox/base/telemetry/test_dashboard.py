"""The dashboard names every existing metric, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support.metrics import COUNTERS, GAUGES, HISTOGRAMS, series_names
from support.parameters import each

DOCS = Path(__file__).parents[5] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "lightbox.json").read_text())
LABELS = {label for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES) for label in metric.labels} | {"instance", "le"}


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def names(text: str) -> set[str]:
    return set(re.findall(r"lightbox_[a-z_]+", text))


def test_the_dashboard_uses_names_that_exist() -> None:
    queries = " ".join([*expressions(), json.dumps(DASHBOARD["templating"])])
    assert names(queries) <= series_names()


def test_the_dashboard_leaves_no_metric_out() -> None:
    shown = " ".join(expressions())
    assert all(metric.name in shown for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES))


@each("expression", expressions())
def test_the_dashboard_groups_by_labels_that_exist(expression: str) -> None:
    groups = re.findall(r"by \(([^)]*)\)", expression)
    used = {label.strip() for group in groups for label in group.split(",")}
    used |= set(re.findall(r"[{,]\s*([a-z]+)\s*(?:=~|!=|=)", expression))
    assert used <= LABELS
    assert expression.count("(") == expression.count(")")


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert place["x"] + place["w"] <= 24
