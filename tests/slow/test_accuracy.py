"""Pictures with known classes, by both engines, over each transport and with fast decoding."""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest

from benchmark.accuracy import SETTINGS, Row, measure, transports
from benchmark.scenarios.common import AUTO, EQUAL_RESPONSES, INT8
from support.isolation import own_environ

pytestmark = pytest.mark.timeout(3600)

NAMES = [name for name in SETTINGS if name not in (AUTO, INT8)]
"""``auto`` takes one of the others, and ``test_quantize`` compares classes in INT8."""
ROWS = [(name, transport) for name in NAMES for transport in transports(name)]


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    with patch.dict(os.environ, own_environ()):
        return {(row.name, row.transport): row for row in measure(NAMES)}


@pytest.fixture(scope="module")
def reference(rows: dict[tuple[str, str], Row]) -> Row:
    return rows[ROWS[0]]


def test_the_classes_are_right(reference: Row) -> None:
    assert len(reference.shown) == 23
    assert reference.top(1) >= 19
    assert reference.top(5) == 23


@pytest.mark.parametrize(("name", "transport"), [row for row in ROWS if row[0] in EQUAL_RESPONSES])
def test_engines_and_transports_give_the_same_probabilities(
    rows: dict[tuple[str, str], Row], reference: Row, name: str, transport: str
) -> None:
    assert rows[name, transport].difference(reference) < 1e-4
    assert rows[name, transport].top(1) == reference.top(1)


@pytest.mark.parametrize(("name", "transport"), [row for row in ROWS if row[0] not in EQUAL_RESPONSES])
def test_other_answers_name_as_many_pictures(
    rows: dict[tuple[str, str], Row], reference: Row, name: str, transport: str
) -> None:
    row = rows[name, transport]
    assert row.top(1) >= reference.top(1) - 2
    assert row.top(5) >= reference.top(5) - 1
    assert row.difference(reference) > 1e-4, "nothing was computed otherwise"
    assert row.difference(reference) < 0.1
