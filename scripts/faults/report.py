"""A verdict in Markdown, and its row in a page's table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from faults.checker import Fault, Kind, Verdict
from lightbox.tools.harness.percentiles import percentile
from lightbox.tools.harness.tables import padded_table, table

MOST_FINDINGS = 50
COLUMNS = ("date", "commit", "requests", "accepted", "faults", "kinds", *Kind)


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


def record(page: Path, verdict: Verdict) -> None:
    """Append a row of the verdict to the page's table, above the row of sums, which is written anew."""
    counts = Counter(finding.kind for finding in verdict.findings)
    kinds = len({fault.line["name"] for fault in verdict.faults})
    numbers = [verdict.counts["requests"], verdict.counts["accepted"], len(verdict.faults), kinds]
    row = [
        *max(verdict.runs),
        *(f"{number:,}" for number in (*numbers, *(counts[kind] for kind in Kind))),
    ]
    text = page.read_text()
    head, mark = table(COLUMNS, [], "llr")
    before, rows, after = re.split(rf"(?<={re.escape(mark)}\n)((?:\|.*\n)*)", text, maxsplit=1)
    assert head in before, f"{page} has no table of {', '.join(COLUMNS)}"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]
    cells = [*(found for found in cells if found[0] != "all"), row]
    sums = [sum(int(found[column].replace(",", "")) for found in cells) for column in range(2, len(row))]
    # Kinds of faults recur.
    sums[3] = max(int(found[5]) for found in cells)
    cells.append(["all", "", *(f"{number:,}" for number in sums)])
    page.write_text(before + "".join(f"| {' | '.join(found)} |\n" for found in cells) + after)
