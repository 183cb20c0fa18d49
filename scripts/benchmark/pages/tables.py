"""Markdown tables of figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightbox.harness import tables

NONE = "\N{EN DASH}"
"""Stands where there is no figure."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table and an empty one; every column but the first is aligned to the right."""
    return [*tables.table(header, rows, "lr"), ""]


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with three significant digits, and a dash where there is none."""
    if value is None:
        return NONE
    if value == 0:
        text = "0"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}".replace(",", " ")
    elif abs(value) >= 100:
        text = f"{value:.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}"
    return f"{text} {unit}".strip()


def size(count: float | None) -> str:
    """Return a number of bytes with its unit."""
    if count is None:
        return NONE
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return number(count / factor, unit)
    return f"{count:.0f} B"


def latencies(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of latencies and throughput; the ratio to the floor where it was measured."""
    with_ratio = any(variant.get("ratio") for variant in variants)
    header = [
        "",
        "p50 ms",
        "p90",
        "p95",
        "p99",
        "average",
        "requests/s",
        *(["÷ floor"] if with_ratio else []),
        "answered",
        "failed",
    ]
    rows = []
    for variant in variants:
        figures = [number(variant.get(name)) for name in ("p50", "p90", "p95", "p99", "average", "throughput")]
        ratio = [number(variant.get("ratio"))] if with_ratio else []
        rows.append([variant["name"], *figures, *ratio, str(variant["answers"]), str(variant["errors"])])
    return table(header, rows)


def costs(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of CPU time by process and of bytes between client and server, per request."""
    roles = [role for role in _ROLES if any(variant["cpu_ms"].get(role, 0) > 0 for variant in variants)]
    header = ["per request", *(f"CPU ms {role}" for role in roles), "CPU ms client", "sent", "received"]
    rows = []
    for variant in variants:
        cpu = [number(variant["cpu_ms"].get(role)) for role in roles]
        traffic = [size(variant.get("bytes_sent")), size(variant.get("bytes_received"))]
        rows.append([variant["name"], *cpu, number(variant.get("client_cpu_ms")), *traffic])
    return table(header, rows)


_ROLES = ("nginx", "gunicorn", "gRPC front", "model server", "supervisor", "server")


def hops(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of bytes on the inner hops, there and back; empty where none were counted."""
    counted = [variant for variant in variants if variant.get("hops")]
    if not counted:
        return []
    names = list(dict.fromkeys(hop for variant in counted for hop in variant["hops"]))
    rows = [
        [
            variant["name"],
            *(" / ".join(size(count) for count in variant["hops"].get(name, [])) or NONE for name in names),
        ]
        for variant in counted
    ]
    return ["Bytes on the inner hops, there / back:", "", *table(["per request", *names], rows)]


BYTES_OF_A_POINT = ("sent / received", "to the model server / back")


def bytes_of_a_point(variant: Mapping[str, Any]) -> list[str]:
    """Return the bytes of one request on the caller's hop and on the one before the model server."""
    caller = (variant.get("bytes_sent"), variant.get("bytes_received"))
    inner = next((counts for hop, counts in variant.get("hops", {}).items() if "model server" in hop), ())
    return [" / ".join(map(size, hop)) if hop and None not in hop else NONE for hop in (caller, inner)]


def stages(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of stages as Server-Timing reports them."""
    timed = [variant for variant in variants if variant.get("stages")]
    names = [name for name in STAGES if any(name in variant["stages"] for variant in timed)]
    if not names:
        return []
    rows = [[variant["name"], *(number(variant["stages"].get(name)) for name in names)] for variant in timed]
    return ["Where the time goes, median ms of each stage:", "", *table(["", *names], rows)]


STAGES = (
    "queue",
    "receive",
    "load",
    "signature",
    "wait",
    "decode",
    "preprocess",
    "encode",
    "predict",
    "decode_response",
    "postprocess",
    "handler",
    "other",
    "total",
)


def servers(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the servers: start, memory, settings."""
    rows = []
    for server in described:
        if "failed" in server:
            rows.append([server["name"], "did not start", NONE, NONE, NONE])
            continue
        marks = ", ".join(f"{mark} {number(seconds, 's')}" for mark, seconds in server["started"].items())
        by_role = ", ".join(f"{role} {size(amount)}" for role, amount in server["pss"].items() if amount)
        rows.append([server["name"], marks, size(sum(server["pss"].values())), by_role, str(server["answers"])])
    return table(["server", "time to", "memory (PSS)", "of which", "requests answered"], rows)


def settings(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how each server was started; addresses and folders, which differ from run to run, are left out."""
    lines = []
    for server in described:
        kept = {k: v for k, v in server.get("settings", {}).items() if k not in _OF_THE_RUN}
        variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in kept.items())
        lines.append(f"- {server['name']}: `{' '.join(filter(None, [variables, server.get('command', '')]))}`")
    return [*lines, ""]


_OF_THE_RUN = {"LIGHTBOX_MODEL_DIR", "SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE"}
