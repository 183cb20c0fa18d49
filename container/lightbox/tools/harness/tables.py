"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MARKS = {"l": "---", "r": "---:"}


def table(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "l") -> list[str]:
    """Return the lines of a table.

    ``alignment`` has ``l`` or ``r`` for each column; the last one counts for all after it.
    """
    marks = [_MARKS[alignment[min(column, len(alignment) - 1)]] for column in range(len(header))]
    return [_line(_escaped(header)), f"|{'|'.join(marks)}|", *(_line(_escaped(cells)) for cells in rows)]


def padded_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns are aligned for a terminal too."""
    body = [_escaped(header), *map(_escaped, rows)]
    widths = [max(3, *(len(row[column]) for row in body)) for column in range(len(header))]
    body.insert(1, ["-" * width for width in widths])
    return [_line([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in body]


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
