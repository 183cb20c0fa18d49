"""The tables of figures: a row for each variant; columns without figures are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmark.declarations import BOUND
from lightbox.tools.harness import tables

NONE = "\N{EN DASH}"
"""Stands where there is no figure."""
Described = Mapping[str, Any]
"""A variant, an experiment or a server, as the results have it."""
ROLES = ("gunicorn", "gRPC front", "model server")
"""Processes whose time is shown; nginx takes the rest."""
SAME_IS_HIDDEN = ("sent", "memory")
"""Columns that are left out where all rows have the same figure."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "lr") -> list[str]:
    """Return the lines of a table and a blank line; all columns but the first are right-aligned."""
    return [*tables.table(header, rows, alignment), ""]


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with three significant digits, or a dash if it is missing."""
    if value is None:
        return NONE
    digits = next((digits for limit, digits in ((1000, -1), (100, 0), (10, 1)) if abs(value) >= limit), 2)
    text = "0" if value == 0 else f"{value:,.0f}".replace(",", " ") if digits < 0 else f"{value:.{digits}f}"
    return f"{text} {unit}".strip()


def size(count: float | None) -> str:
    """Return a number of bytes with its unit."""
    if count is None:
        return NONE
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return number(count / factor, unit)
    return f"{count:.0f} B"


def cpu_ms(variant: Described) -> float | None:
    """Return the CPU time of a request in all processes of the server."""
    return sum(variant["cpu_ms"].values()) or None


def scenario(result: Described) -> list[str]:
    """Return the tables of a scenario: of each experiment, and of each sweep, with the failed requests."""
    lines = [f"# {result['key']}", ""]
    for experiment in result["experiments"]:
        if experiment["key"] not in result["axes"]:
            load = f"{experiment['rounds']} x {experiment['load']['requests']} requests."
            lines += [f"## {experiment['title']}", "", load, "", *variants([experiment], result["servers"])]
        for row in experiment["variants"]:
            if row["first_error"]:
                lines += [f"{experiment['title']}, {row['name']}: {row['errors']} failed: `{row['first_error']}`", ""]
    for key, axis in result["axes"].items():
        points = [experiment for experiment in result["experiments"] if experiment["key"] == key]
        lines += [f"## {axis}", "", *variants(points, result["servers"], axis)]
    return lines


def variants(experiments: Sequence[Described], servers: Sequence[Described], axis: str = "") -> list[str]:
    """Return the table of some experiments; with an axis, each row begins with its experiment's position on it.

    ``servers`` are the servers of the run: a row shows its server's memory (PSS).
    """
    memory = {server["name"]: sum(server["pss"].values()) for server in servers if "pss" in server}
    rows = []
    for experiment in experiments:
        found = experiment["variants"]
        bound = next((cpu_ms(variant) for variant in found if variant["name"] == BOUND), None)
        for variant in found:
            cells = _cells(variant, bound) | {"memory": size(memory.get(variant["server"]))}
            rows.append(([*([f"{experiment['x']:g}"] if axis else []), variant["name"]], cells))
    columns = {name: {cells[name] for _, cells in rows} - {NONE, "0"} for name in rows[0][1]}
    shown = [name for name, different in columns.items() if len(different) > (name in SAME_IS_HIDDEN)]
    if not any(experiment["load"]["clients"] > 1 or experiment["load"]["rate"] for experiment in experiments):
        shown.remove("requests/s")  # one client that waits for each response has 1000 / p50
    header = [*([axis] if axis else []), "", *shown]
    return table(header, ([*first, *(cells[name] for name in shown)] for first, cells in rows))


def _cells(variant: Described, bound: float | None) -> dict[str, str]:
    """Return a row's cells by column; ``bound`` is the bound's CPU time in milliseconds, "above the bound" too."""
    cpu = cpu_ms(variant)
    figures = {
        "p50 ms": variant.get("p50"),
        "p99": variant.get("p99"),
        "requests/s": variant.get("throughput"),
        "CPU ms": cpu,
        "above the bound": cpu - bound if cpu and bound else None,
        **{role: variant["cpu_ms"].get(role) for role in ROLES},
        "failed": variant.get("errors"),
    }
    return {name: number(value) for name, value in figures.items()} | {"sent": size(variant.get("bytes_sent"))}
