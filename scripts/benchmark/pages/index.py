"""The first page: what must be reached, what each scenario says, how to repeat it."""

from __future__ import annotations

from pathlib import Path

from benchmark.pages import findings, tables
from benchmark.pages.scenario import measured_with, model_server
from benchmark.results import Document
from benchmark.targets import TARGETS

HEAD = """# Benchmarks

Which bytes should cross which wire, and how near the floor is Lightbox? `make bench` measures the scenarios below anew,
in twenty minutes on 2 slow cores, and writes this page and theirs; `make bench BENCH=--quick` shows in two that all of
it works, and writes into `build/benchmarks/`. `results.json` beside this page holds every figure. What stands under
"Also here" was measured by commands of its own.

**The floor** of a request is what one process needs to decode and resize the image with Pillow and make one direct
gRPC Predict with the prepared tensor to the same model server. It is measured in the same rounds as the rest, and
ratios are medians over the rounds of p50 ÷ the floor's p50. Latencies are the caller's, client and server on one
machine. p50 and throughput are medians of the rounds, of which there is one where no number of them is given; the other
percentiles are of all requests together.

`scripts/latency_comparison.ipynb` compares both wires of one endpoint, here or on SageMaker, and draws what a detector
saw.
"""


def page(document: Document, folder: Path) -> str:
    """Return the page as Markdown; other pages of the folder are linked too."""
    lines = [HEAD]
    if document["scale"] == "quick":
        lines += ["*These figures are of a quick run: too few requests to quote.*", ""]
    lines += ["## What must be reached", "", model_server(document), "", *_targets(document), "## The scenarios", ""]
    for result in document["scenarios"]:
        lines += [f"### [{result['title']}]({result['key']}.md)", "", result["question"], ""]
        lines += [*(f"- {sentence}" for sentence in findings.of(document, result["key"])), ""]
    others = sorted(path.name for path in folder.glob("*.md") if path.stem not in {"README", *_keys(document)})
    if others:
        lines += [
            "## Also here",
            "",
            *(f"- [{name.removesuffix('.md').replace('_', ' ')}]({name})" for name in others),
            "",
        ]
    lines += ["## Machine and versions", "", measured_with(document), ""]
    return "\n".join(lines)


def _keys(document: Document) -> set[str]:
    return {result["key"] for result in document["scenarios"]}


def _targets(document: Document) -> list[str]:
    rows = []
    for target in TARGETS:
        value = target.measure(document)
        sign = "≤" if target.at_most else "≥"
        verdict = "not measured" if value is None else "met" if target.met(value) else "**missed**"
        rows.append(
            [target.what, f"{sign} {target.bound:g} {target.unit}".strip(), tables.number(value, target.unit), verdict]
        )
    return tables.table(["figure", "bound", "measured", ""], rows)
