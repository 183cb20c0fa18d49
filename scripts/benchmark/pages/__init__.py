"""Writes the results as pages; python -m benchmark.pages RESULTS.json FOLDER rewrites them from a run's document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmark.pages import tables
from benchmark.pages.words import WORDS
from benchmark.results import Document
from benchmark.targets import HEADLINES, RATIOS, UNITS, Ratio

HEAD = """```bash
make bench                  # a quarter of an hour: measure all scenarios and write these pages
make bench BENCH=--quick    # two minutes, into build/benchmarks/
make bench AGAINST=FOLDER   # six minutes: CPU, memory and start beside another checkout; run make setup native there
# write the pages again, without measuring
PYTHONPATH=scripts:container .venv/bin/python -m benchmark.pages docs/benchmarks/results.json docs/benchmarks
```

`results.json` has all figures and the servers' settings. `scripts/latency_comparison.ipynb` compares REST and gRPC on
an endpoint of your own.
"""
METHOD = """Clients and servers share one machine. Variants take turns, in rounds with a time limit. p50 and requests/s
are medians of the rounds; p99 is over all requests. CPU is the processor time of a server for one request; nginx takes
most of the time that has no column. Memory is PSS. Tables without a number of clients have one. **The bound** is the
same work in one thread without a server.
"""


def write(document: Document, folder: Path) -> None:
    """Write README.md, and a page for each scenario in the run."""
    for result in document["scenarios"]:
        (folder / f"{result['key']}.md").write_text(_page(document, result))
    (folder / "README.md").write_text(_index(document, folder))


def sentences(document: Document, ratios: Iterable[Ratio]) -> list[str]:
    """Return some ratios in words, the greatest loss first; a sentence without figures is left out."""
    found = []
    for ratio in ratios:
        if value := ratio.value(document):
            gain = 1 / value if ratio.less_is_better else value
            found.append((gain, f"- {ratio.sentence(document, tables.number)}"))
    return [*(text for _, text in sorted(found)), ""] if found else []


def _page(document: Document, result: Mapping[str, Any]) -> str:
    words, ratios = WORDS[result["key"]], (ratio for ratio in RATIOS if ratio.scenario == result["key"])
    lines = [f"# {words.title}", "", words.question, "", *sentences(document, ratios)]
    lines += [measured_with(document), ""]
    lines += [*(f"- {note}" for note in words.notes), ""] if words.notes else []
    for experiment in result["experiments"]:
        if experiment["key"] not in result["axes"]:
            lines += [f"## {experiment['title']}", "", _load(experiment), ""]
            lines += tables.variants([experiment], result["servers"])
            lines += [f"- {_failure(row)}" for row in experiment["variants"] if row["first_error"]]
    for key, axis in result["axes"].items():
        points = [experiment for experiment in result["experiments"] if experiment["key"] == key]
        if points:
            lines += [f"## {axis[0].upper()}{axis[1:]}", ""]
            lines += tables.variants(points, result["servers"], axis)
    return "\n".join(lines)


def _failure(row: Mapping[str, Any]) -> str:
    return f"{row['name']}: {row['errors']} failed, the first with `{row['first_error']}`"


def _load(experiment: Mapping[str, Any]) -> str:
    load = experiment["load"]
    rounds = f"{experiment['rounds']} round{'s' if experiment['rounds'] > 1 else ''}"
    return f"{rounds} of {load['requests']} requests."


def measured_with(document: Mapping[str, Any]) -> str:
    """Return the date, machine, commit and model server of the measurement."""
    machine, versions = document["machine"], document["versions"]
    embedded = versions.get("model server") == "embedded"
    server = "embedded model server" if embedded else "tensorflow_model_server"
    busy = " Other programs ran: quote only ratios of CPU time." if machine["load_before"][0] > 1 else ""
    return (
        f"*Measured {document['measured'][:10]}, commit {versions.get('lightbox', tables.NONE)}, on "
        f"{machine['processor']} ({machine['instructions']}), {machine['cores']} cores, {server}.{busy}*"
    )


def _versions(document: Document) -> str:
    machine, ours = document["machine"], ("lightbox", "model server")
    others = ", ".join(f"{name} {version}" for name, version in document["versions"].items() if name not in ours)
    return f"*{machine['memory_gb']} GB, Linux {machine['kernel']}, {others}.*"


def _index(document: Document, folder: Path) -> str:
    lines = [
        "# Benchmarks",
        "",
        *sentences(document, HEADLINES),
        measured_with(document),
        "",
        _versions(document),
        "",
        HEAD,
    ]
    if document["scale"] == "quick":
        lines += ["*These figures are of a quick run: too few requests to quote.*", ""]
    lines += [METHOD, "## Targets", "", *_targets(document), "## Pages", ""]
    for result in document["scenarios"]:
        words = WORDS[result["key"]]
        lines += [f"- [{words.title}]({result['key']}.md): {words.question}"]
    ours = {"README", *(result["key"] for result in document["scenarios"])}
    others = sorted(path.stem for path in folder.glob("*.md") if path.stem not in ours)
    if others:
        links = ", ".join(f"[{name.replace('_', ' ')}]({name}.md)" for name in others)
        lines += ["", f"Beside these: {links}."]
    return "\n".join([*lines, ""])


def _targets(document: Document) -> list[str]:
    rows = []
    for ratio in RATIOS:
        if ratio.target is not None:
            value = ratio.value(document)
            verdict = "not measured" if value is None else "met" if ratio.met(value) else "**missed**"
            what = f"{ratio.what}, {UNITS[ratio.figure]}: {ratio.ours} ÷ {' or '.join(ratio.theirs)}"
            bound = f"{'≤' if ratio.less_is_better else '≥'} {tables.number(ratio.target)}"
            rows.append([what, bound, tables.number(value), verdict])
    return tables.table(["figure", "bound", "measured", ""], rows)
