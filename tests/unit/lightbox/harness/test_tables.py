"""Markdown tables."""

from __future__ import annotations

from lightbox.harness.tables import padded_table, table


def test_columns_are_aligned_as_asked_the_last_letter_for_the_rest() -> None:
    assert table(("a", "b", "c"), [("x", "1", "2")], "lr") == [
        "| a | b | c |",
        "|---|---:|---:|",
        "| x | 1 | 2 |",
    ]
    assert table(("a", "b"), []) == ["| a | b |", "|---|---|"]


def test_a_bar_in_a_cell_ends_no_cell() -> None:
    assert table(("a",), [("x|y",)])[-1] == r"| x\|y |"


def test_a_padded_table_has_columns_for_a_terminal() -> None:
    lines = padded_table(("", "number"), [("sent", "1,234"), ("a|b", "")])
    assert lines == ["|      | number |", "| ---- | ------ |", "| sent | 1,234  |", r"| a\|b |        |"]
