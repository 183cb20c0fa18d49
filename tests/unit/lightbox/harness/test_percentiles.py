"""Percentiles of latencies."""

from __future__ import annotations

from lightbox.harness.percentiles import percentile, percentiles


def test_a_percentile_lies_between_two_values_where_it_falls_there() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentiles([1.0, 2.0], (0, 25, 100)) == [1.0, 1.25, 2.0]


def test_of_nothing_every_percentile_is_infinite() -> None:
    assert percentiles([], (50, 99)) == [float("inf"), float("inf")]
