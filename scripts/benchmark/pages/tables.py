"""The one table of figures: a row for each variant, and the columns for which the rows have figures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmark.declarations import BOUND
from lightbox.harness import tables

NONE = "\N{EN DASH}"
"""Stands where there is no figure."""
Variant = Mapping[str, Any]
ROLES = ("nginx", "gunicorn", "gRPC front", "model server")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "lr") -> list[str]:
    """Return the lines of a table and an empty one; every column but the first is aligned to the right."""
    return [*tables.table(header, rows, alignment), ""]


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with three significant digits, and a dash where there is none."""
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


def cpu_ms(variant: Variant) -> float | None:
    """Return the processor time of a request in all processes of the server."""
    return sum(variant["cpu_ms"].values()) or None


def variants(points: Sequence[tuple[str, Sequence[Variant]]], axis: str = "") -> list[str]:
    """Return the table of some experiments; with an axis, each row begins with its point's place on it."""
    rows: list[tuple[str, Variant, Variant]] = []
    for place, found in points:
        bound = next((variant for variant in found if variant["name"] == BOUND), {})
        rows += [(place, variant, bound) for variant in found]
    shown = {name: [cell(variant, bound) for _, variant, bound in rows] for name, cell in _COLUMNS.items()}
    shown = {name: cells for name, cells in shown.items() if set(cells) - {NONE, "0"}}
    header = [*([axis] if axis else []), "", *shown]
    cells = zip(rows, *shown.values(), strict=True)
    return table(
        header, ([*([place] if axis else []), variant["name"], *found] for (place, variant, _), *found in cells)
    )


Cell = Callable[[Variant, Variant], str]


def _by(figure: Callable[[Variant], float | None]) -> Cell:
    def cell(variant: Variant, bound: Variant) -> str:
        ours, theirs = figure(variant), figure(bound) if bound else None
        return number(ours / theirs if ours and theirs else None)

    return cell


def _plain(key: str, show: Callable[[float | None], str] = number) -> Cell:
    return lambda variant, bound: show(variant.get(key))


def _role(role: str) -> Cell:
    return lambda variant, bound: number(variant["cpu_ms"].get(role))


_COLUMNS: dict[str, Cell] = {
    "p50 ms": _plain("p50"),
    "p95": _plain("p95"),
    "p99": _plain("p99"),
    "requests/s": _plain("throughput"),
    "p50 ÷ bound": _by(lambda variant: variant.get("p50")),
    "CPU ÷ bound": _by(cpu_ms),
    "CPU ms": lambda variant, bound: number(cpu_ms(variant)),
    **{role: _role(role) for role in ROLES},
    "client's CPU": _plain("client_cpu_ms"),
    "sent": _plain("bytes_sent", size),
    "received": _plain("bytes_received", size),
    "failed": _plain("errors"),
}


def servers(described: Sequence[Variant]) -> list[str]:
    """Return the table of the servers: start, memory, and the variables or arguments that they are started with."""
    rows = []
    for server in described:
        if "failed" in server:
            rows.append([server["name"], "did not start", *[NONE] * 4])
            continue
        kept = {key: value for key, value in server["settings"].items() if key not in _OF_THE_RUN}
        command = " ".join([*(f"{key}={shlex.quote(value)}" for key, value in kept.items()), server["command"]])
        memory = [sum(server["pss"].values()), *(server["pss"].get(role) for role in ("gunicorn", "model server"))]
        rows.append([server["name"], f"`{command}`", number(server["started"]["ready"]), *map(size, memory)])
    return table(["server", "started by", "ready, s", "memory (PSS)", "gunicorn", "model server"], rows, "llr")


_OF_THE_RUN = {"LIGHTBOX_MODEL_DIR", "SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE", "XDG_CACHE_HOME"}
"""Addresses and folders, which differ from run to run."""
