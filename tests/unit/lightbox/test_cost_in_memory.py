"""The peak memory of reading a request, relative to its size. docs/limits.md states the bound."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import pytest

from lightbox.base.request_context import MOST_PER_BYTE, SMALL
from support import commands
from support.costly import BODIES, GRPC
from support.parameters import each

pytestmark = pytest.mark.extended

TESTS = Path(__file__).parents[2]
SIZE = 3 << 20
NAMES = [*BODIES, *(f"grpc {name}" for name in GRPC)]


@cache
def peaks() -> dict[str, tuple[int, float]]:
    """Return the status and peak of each kind of request, from another process: this one has free memory to reuse."""
    environ = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'container'}", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-m", "support.peaks", str(SIZE)]
    reply = commands.output(command, env=environ)
    lines = (line.rsplit(" ", 2) for line in reply.splitlines())
    return {name.rstrip(":"): (int(status), float(peak)) for name, status, peak in lines}


@each("name", NAMES)
def test_a_byte_takes_no_more_than_twelve(name: str) -> None:
    assert SIZE * MOST_PER_BYTE > SMALL, "smaller requests may take more"
    status, peak = peaks()[name]
    assert status in (200, 400, 413, 415)
    assert peak <= MOST_PER_BYTE


@each(
    "name",
    [
        "json of digits",
        "json of pixels",
        "json of digits as int64",
        "csv of one digit",
        "v2 of digits",
        "npz",
        "json of rows by name",
        "json lines of objects",
    ],
)
def test_lists_of_numbers_are_read_not_refused(name: str) -> None:
    assert peaks()[name][0] == 200
