"""A verdict in Markdown, and its row of a page's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from faults.checker import Fault, Kind, Verdict
from lightbox.tools.harness.percentiles import percentile
from lightbox.tools.harness.tables import padded_table

MOST_FINDINGS = 50


def report(verdict: Verdict) -> str:
    """Return all of it."""
    lines = padded_table(("", "number"), [(name, f"{number:,}") for name, number in verdict.counts.most_common()])
    lines += ["", *_fault_table(verdict.faults)] if verdict.faults else []
    if verdict.growth:
        rows = [(name, f"{part:+.1%}") for name, part in sorted(verdict.growth.items())]
        lines += ["", *padded_table(("process", "memory's growth"), rows)]
    lines += ["", *(f"FORBIDDEN: {name}: {why}" for name, why in verdict.forbidden.items())]
    counts = Counter(finding.kind for finding in verdict.findings)
    lines += ["", *(f"{kind}: {counts[kind]}" for kind in Kind)]
    lines += [f"FOUND: {finding.kind}: {finding.at:.2f} {finding.text}" for finding in verdict.findings[:MOST_FINDINGS]]
    return "\n".join(lines)


def _fault_table(faults: Sequence[Fault]) -> list[str]:
    rows = []
    for name in sorted({fault.line["name"] for fault in faults}):
        those = [fault for fault in faults if fault.line["name"] == name]
        recoveries = sorted(fault.recovery for fault in those)
        ended = sorted({kind for fault in those for kind in fault.ended})
        rows.append(
            (
                name,
                str(len(those)),
                f"{median(fault.over - fault.line['at'] for fault in those):.1f} s",
                *(f"{seconds:.1f} s" for seconds in (median(recoveries), percentile(recoveries, 99), recoveries[-1])),
                ", ".join(ended),
            )
        )
    return padded_table(("fault", "times", "lasts", "recovery, median", "p99", "worst", "processes that ended"), rows)


def row(verdict: Verdict) -> str:
    """Return the verdict's row of the table in docs/fault-tests.md."""
    counts = Counter(finding.kind for finding in verdict.findings)
    kinds = len({fault.line["name"] for fault in verdict.faults})
    numbers = [verdict.counts["requests"], verdict.counts["accepted"], len(verdict.faults), kinds]
    cells = [*max(verdict.runs), *(f"{number:,}" for number in (*numbers, *(counts[kind] for kind in Kind)))]
    return f"| {' | '.join(cells)} |"
