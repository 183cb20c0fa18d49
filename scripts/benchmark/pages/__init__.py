"""The results as pages: python -m benchmark.pages RESULTS.json FOLDER writes them anew from a run's document."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmark.pages import plots, tables
from benchmark.results import Document
from benchmark.targets import SENTENCES, TARGETS

HEAD = """# Benchmarks

`make bench` measures the scenarios below and writes this page and theirs; it says at its start how long that takes.
`make bench BENCH=--quick` takes two minutes, and writes to `build/benchmarks/`. `results.json` has all figures.
`scripts/latency_comparison.ipynb` compares the wires of one endpoint, local or on SageMaker.
"""
METHOD = """Clients and servers share one machine. p50 and requests/s are medians of the rounds, in which the variants
take turns; p95 and p99 are over all requests. CPU is that of all processes of a server, for one request. **The bound**
is the same work in one process without a server: same decoder, same resize, same engine, one thread.
"""


def write(document: Document, folder: Path) -> None:
    """Write README.md, a page for each scenario that was run, and a picture beside each."""
    import capacity

    drawn = plots.draw(document, folder / "plots")
    for result in document["scenarios"]:
        (folder / f"{result['key']}.md").write_text(_page(document, result, result["key"] in drawn))
    with suppress(capacity.NoFigures):
        (folder / "capacity.md").write_text(capacity.page(document))
    (folder / "README.md").write_text(_index(document, folder))


def sentences(document: Document, page: str) -> list[str]:
    """Return what a reader of a page came for, the greatest loss first; fewer where the run lacks figures."""
    found = []
    for ratio in SENTENCES[page]:
        if value := ratio.value(document):
            gain = 1 / value if ratio.less_is_better else value
            found.append((gain, f"- {ratio.sentence(document, tables.number)}"))
    return [*(text for _, text in sorted(found)), ""] if found else []


def _page(document: Document, result: Mapping[str, Any], drawn: bool) -> str:
    lines = [f"# {result['title']}", "", result["question"], "", *sentences(document, result["key"])]
    lines += [measured_with(result.get("run", document)) + _stolen(result), ""]
    lines += [f"![{result['title']}](plots/{result['key']}.svg)", ""] if drawn else []
    lines += [*(f"- {note}" for note in result["notes"]), ""] if result["notes"] else []
    for experiment in result["experiments"]:
        if experiment["key"] not in result["axes"]:
            lines += [f"## {experiment['title']}", "", _load(experiment), ""]
            lines += tables.variants([("", experiment["variants"])])
            lines += [f"- {_failure(row)}" for row in experiment["variants"] if row["first_error"]]
    for key, axis in result["axes"].items():
        points = [experiment for experiment in result["experiments"] if experiment["key"] == key]
        if points:
            lines += [f"## {axis[0].upper()}{axis[1:]}", ""]
            lines += tables.variants([(f"{point['x']:g}", point["variants"]) for point in points], axis)
    lines += ["## The servers", "", *tables.servers(result["servers"]), "Back to [all benchmarks](README.md).", ""]
    return "\n".join(lines)


def _failure(row: Mapping[str, Any]) -> str:
    return f"{row['name']}: {row['errors']} failed, the first with `{row['first_error']}`"


def _load(experiment: Mapping[str, Any]) -> str:
    load, rounds = experiment["load"], experiment["rounds"]
    clients = f"{load['clients']} client{'s' if load['clients'] > 1 else ''}"
    how = f"Waves of {load['clients']} requests" if load["waves"] else f"{clients}, at most {load['requests']} requests"
    return f"{how}{f', {rounds} rounds' if rounds > 1 else ''}."


def _stolen(result: Mapping[str, Any]) -> str:
    """Return a sentence for a machine that was not there alone: its latencies jump, and only ratios can be quoted."""
    share = result.get("stolen", 0)
    return f" A hypervisor gave {share:.0%} of the processor time wanted meanwhile to others." if share >= 0.01 else ""


def measured_with(document: Mapping[str, Any]) -> str:
    """Return machine, versions and command, and which model server was measured."""
    machine, versions = document["machine"], document["versions"]
    embedded = versions.get("model server") == "embedded"
    server = "the embedded model server, not TensorFlow Serving" if embedded else "tensorflow_model_server"
    processor = " with ".join(machine[name] for name in ("processor", "instructions") if name in machine)
    busy = (
        "Other programs ran meanwhile: quote ratios of processor time alone. " if machine["load_before"][0] > 1 else ""
    )
    others = ", ".join(
        f"{name} {version}" for name, version in versions.items() if name not in ("lightbox", "model server")
    )
    return (
        f"*Measured {document['measured'][:10]}, commit {versions.get('lightbox', tables.NONE)}, by "
        f"`{document['command']}`, on {processor}, {machine['cores']} cores, {machine['memory_gb']} GB, Linux "
        f"{machine['kernel']}, load before the start {machine['load_before'][0]}. {busy}Model server: {server}. "
        f"{others}.*"
    )


def _index(document: Document, folder: Path) -> str:
    lines = [HEAD, *sentences(document, "README"), measured_with(document), ""]
    if document["scale"] == "quick":
        lines += ["*These figures are of a quick run: too few requests to quote.*", ""]
    lines += [METHOD, "## Targets", "", *_targets(document), "## The scenarios", ""]
    for result in document["scenarios"]:
        other = ", measured in a run of its own" if "run" in result else ""
        lines += [f"- [{result['title']}]({result['key']}.md){other}: {result['question']}"]
    ours = {"README", *(result["key"] for result in document["scenarios"])}
    others = sorted(path.stem for path in folder.glob("*.md") if path.stem not in ours)
    if others:
        links = ", ".join(f"[{name.replace('_', ' ')}]({name}.md)" for name in others)
        lines += ["", f"By commands of their own, or calculated: {links}."]
    return "\n".join([*lines, ""])


def _targets(document: Document) -> list[str]:
    rows = []
    for target in TARGETS:
        value = target.ratio.value(document)
        verdict = "not measured" if value is None else "met" if target.met(value) else "**missed**"
        bound = f"{'≤' if target.ratio.less_is_better else '≥'} {tables.number(target.bound)}"
        rows.append([target.what, bound, tables.number(value), verdict])
    return tables.table(["figure", "bound", "measured", ""], rows)
