"""Parameters of a test of which ``make test`` runs a few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few_of(values: Iterable[Any], *few: Any) -> list[Any]:
    """Return the values for ``pytest.mark.parametrize``; all but ``few`` are part of ``make test-all`` alone."""
    return [value if value in few else pytest.param(value, marks=pytest.mark.extended) for value in values]
