"""The first page: targets, the findings of each scenario, how to repeat them."""

from __future__ import annotations

from pathlib import Path

from benchmark.pages import findings, tables
from benchmark.pages.scenario import measured_with, model_server
from benchmark.results import Document
from benchmark.targets import TARGETS

HEAD = """# Benchmarks

Which bytes should cross which wire, and how close does Lightbox come to the theoretical minimum? `make bench` measures
the scenarios below, in twenty minutes on 2 slow cores, and writes this page and theirs. `make bench BENCH=--quick`
checks in two minutes that everything works, and writes to `build/benchmarks/`. `results.json` beside this page has all
figures. The pages under "Other pages" were measured with commands of their own.

**The floor** is the minimum for a request: one process decodes and resizes the image with Pillow and makes one direct
gRPC Predict with the prepared tensor to the same model server. It is measured in the same rounds as the variants, and
ratios are medians over the rounds of p50 ÷ the floor's p50. Latencies are measured in the client, with client and
server on one machine. p50 and throughput are medians of the rounds; a variant without a number of rounds has one. The
other percentiles are over all requests.

`scripts/latency_comparison.ipynb` compares both wires of one endpoint, local or on SageMaker, and draws the objects
that a detector found.
"""


AVX2 = (
    "The processor's instructions move the ratios to LitServe: on a machine with AVX2 alone, in another run, CPU an "
    "image was 0.84 to 0.88, p50 0.74 to 0.85, images/s 1.17 ([engines](../engines.md#what-it-costs)). What this page "
    "was measured on is [below](#machine-and-versions)."
)


def page(document: Document, folder: Path) -> str:
    """Return the page as Markdown; other pages of the folder are linked too."""
    lines = [HEAD]
    if document["scale"] == "quick":
        lines += ["*These figures are of a quick run: too few requests to quote.*", ""]
    lines += ["## Targets", "", model_server(document), "", *_targets(document), AVX2, "", "## The scenarios", ""]
    for result in document["scenarios"]:
        lines += [f"### [{result['title']}]({result['key']}.md)", "", result["question"], ""]
        lines += [*(f"- {sentence}" for sentence in findings.of(document, result["key"])), ""]
    others = sorted(path.name for path in folder.glob("*.md") if path.stem not in {"README", *_keys(document)})
    if others:
        lines += [
            "## Other pages",
            "",
            *(f"- [{name.removesuffix('.md').replace('_', ' ')}]({name})" for name in others),
            "",
        ]
    lines += ["## Machine and versions", "", measured_with(document), *_other_runs(document), ""]
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


def _other_runs(document: Document) -> list[str]:
    others = ", ".join(found["key"] for found in document["scenarios"] if "run" in found)
    return ["", f"{others}: measured in other runs, which their pages tell."] if others else []
