"""The page of one scenario."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from benchmark.pages import findings, tables
from benchmark.results import Document


def page(document: Document, result: Mapping[str, Any], drawn: Collection[str]) -> str:
    """Return the page as Markdown."""
    lines = [f"# {result['title']}", "", result["question"], ""]
    found = findings.of(document, result["key"])
    if found:
        lines += ["**What came out.**", "", *(f"- {sentence}" for sentence in found), ""]
    lines += [*(f"- {note}" for note in result["notes"]), ""] if result["notes"] else []
    for experiment in result["experiments"]:
        if experiment["key"] not in result["axes"]:
            lines += _experiment(document, result, experiment, drawn)
    for key, axis in result["axes"].items():
        lines += _sweep(document, result, key, axis, drawn)
    lines += ["## The servers", "", *tables.servers(result["servers"]), *tables.settings(result["servers"])]
    lines += [
        f"{measured_with(result.get('run', document))}{_stolen(result)}",
        "",
        "Back to [all benchmarks](README.md).",
        "",
    ]
    return "\n".join(lines)


def _experiment(
    document: Document, result: Mapping[str, Any], experiment: Mapping[str, Any], drawn: Collection[str]
) -> list[str]:
    variants = experiment["variants"]
    name = f"{result['key']}_{experiment['key']}"
    lines = [f"## {experiment['title'][0].upper()}{experiment['title'][1:]}", "", _load(document, experiment), ""]
    lines += tables.latencies(variants)
    lines += [
        f"- {v['name']}: {v['errors']} failed, the first with `{v['first_error']}`" for v in variants if v["errors"]
    ]
    lines += _picture(drawn, f"{name}_stages") + tables.stages(variants)
    lines += tables.costs(variants) + tables.hops(variants) + _picture(drawn, f"{name}_latency")
    return lines


def _sweep(document: Document, result: Mapping[str, Any], key: str, axis: str, drawn: Collection[str]) -> list[str]:
    points = [experiment for experiment in result["experiments"] if experiment["key"] == key]
    if not points:
        return []
    header = [axis, "", "p50 ms", "p95", "p99", "requests/s", "÷ floor", "CPU ms", *tables.BYTES_OF_A_POINT, "failed"]
    rows = []
    for point in points:
        for variant in point["variants"]:
            figures = [tables.number(variant.get(column)) for column in ("p50", "p95", "p99", "throughput", "ratio")]
            cost = [tables.number(sum(variant["cpu_ms"].values()) or None), *tables.bytes_of_a_point(variant)]
            rows.append([f"{point['x']:g}", variant["name"], *figures, *cost, str(variant["errors"])])
    title = f"## {axis[0].upper()}{axis[1:]}"
    return [
        title,
        "",
        model_server(document),
        "",
        *_picture(drawn, f"{result['key']}_{key}"),
        *tables.table(header, rows),
    ]


def _picture(drawn: Collection[str], key: str) -> list[str]:
    return [f"![{key.replace('_', ' ')}](plots/{key}.svg)", ""] if key in drawn else []


def _load(document: Document, experiment: Mapping[str, Any]) -> str:
    load = experiment["load"]
    if load["rate"]:
        how = f"{load['requests']} requests at {load['rate']:g} a second"
    elif load["waves"]:
        how = (
            f"{load['requests'] // load['clients']} waves of {load['clients']} requests at once; a latency is a wave's"
        )
    else:
        how = f"{load['clients']} client{'s' if load['clients'] > 1 else ''}, {load['requests']} requests"
    rounds = f", {experiment['rounds']} rounds of each variant in turn" if experiment["rounds"] > 1 else ""
    return f"{how[0].upper()}{how[1:]}{rounds}. {model_server(document)}"


def _stolen(result: Mapping[str, Any]) -> str:
    """Return a sentence for a machine that was not there alone: its latencies jump, and only ratios can be quoted."""
    share = result.get("stolen", 0)
    return f" A hypervisor gave {share:.0%} of the processor time wanted meanwhile to others." if share >= 0.01 else ""


def model_server(document: Document) -> str:
    """Return the sentence that stands beside every figure: which model server was measured."""
    if document["versions"]["model server"] == "embedded":
        return "*Model server: the embedded model server, not TensorFlow Serving.*"
    return "*Model server: tensorflow_model_server.*"


def measured_with(document: Mapping[str, Any]) -> str:
    """Return machine, versions and command."""
    machine = document["machine"]
    processor = " with ".join(machine[name] for name in ("processor", "instructions") if name in machine)
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    rivals = ", ".join(f"{name} {version}" for name, version in document["rival_versions"].items())
    return (
        f"Measured {document['measured']} by `{document['command']}` on {processor}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB, Linux {machine['kernel']}; "
        f"load before the start {machine['load_before'][0]}. "
        f"{versions}." + (f" Beside it: {rivals}." if rivals else "")
    )
