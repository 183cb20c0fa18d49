"""Faults of the wall clock, which the stack's processes read through a library of their own: wall_clock.c."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.fault import Fault, Target

HOUR_SECONDS = 3600.0
LASTING_SECONDS = 10.0
_SHIFT = struct.Struct("d")
_SOURCE = Path(__file__).with_name("wall_clock.c")


@contextmanager
def wall_clock() -> Iterator[tuple[tuple[str, ...], list[Fault]]]:
    """Yield the words that start a program whose wall clock can be set, and the faults of that clock."""
    with TemporaryDirectory() as folder:
        library, shift = Path(folder, "wall_clock.so"), Path(folder, "shift")
        _set(shift, 0.0)
        forbidden = _compiled(library)
        within = () if forbidden else ("env", f"LD_PRELOAD={library}", f"WALL_CLOCK={shift}")
        ahead, behind = "the clock is set an hour forward, then back", "the clock is set an hour back, then forward"
        yield (
            within,
            [
                Fault(name, partial(_step, shift, seconds), forbidden=forbidden)
                for name, seconds in ((ahead, HOUR_SECONDS), (behind, -HOUR_SECONDS))
            ],
        )


def _compiled(library: Path) -> str:
    """Compile it; return why that cannot be, or an empty text."""
    command = ("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lm")
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    except (OSError, subprocess.CalledProcessError) as error:
        return f"needs a C compiler for glibc: {getattr(error, 'stderr', None) or error}"
    return ""


def _step(shift: Path, seconds: float, target: Target) -> None:
    try:
        _set(shift, seconds)
        target.last(LASTING_SECONDS)
    finally:
        _set(shift, 0.0)


def _set(shift: Path, seconds: float) -> None:
    # The processes have mapped these bytes: the same file, written in one piece.
    with shift.open("r+b" if shift.exists() else "xb", buffering=0) as file:
        file.write(_SHIFT.pack(seconds))
