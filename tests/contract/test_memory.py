"""The server's memory does not grow with the number of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.many_requests import growth

pytestmark = pytest.mark.extended


def test_thousands_of_requests(tmp_path: Path) -> None:
    # A leak of 2 kB per request would exceed this. slow/test_many_requests.py sends more requests.
    assert growth(tmp_path, early=1_000, late=5_000) <= 1.02
