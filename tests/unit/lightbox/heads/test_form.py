"""Shapes that outputs can have."""

from __future__ import annotations

from lightbox.heads.form import are_of_the_same, can_be, described


def test_unknown_dimensions_can_be_any() -> None:
    assert can_be(None, (1, 2))
    assert can_be((None, 2), (1, None))
    assert not can_be((1, 3), (1, 2))
    assert not can_be((1, 2, 3), (1, 2))
    assert are_of_the_same([(None, 9, 4), None, (1, 9)])
    assert not are_of_the_same([(1, 9, 4), (None, None), (1, 8)])
    assert described({"x": None, "y": (None, 3)}) == "x (any shape), y [-1,3]"
