"""Faults of what surrounds the processes: files, disks, the network, the clock, the log's reader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from faults.fault import Fault, Target
from faults.own_machine import MEMORY_FOLDER, OwnMachine
from faults.stack import Settings

SECONDS = 10.0
ONE_IN = 50
MODEL = "rows"
"""The model whose folder is harmed; it has files of its own."""
HOUR = 3600
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def faults(machine: OwnMachine) -> list[Fault]:
    """Return those of a stack with fixed models."""
    needs = machine.forbidden

    def lasting(
        name: str, block: Callable[[Target], AbstractContextManager[None]], may: tuple[int, ...] = (), needs: str = ""
    ) -> Fault:
        return Fault(name, partial(_in_block, block), may=may, forbidden=needs)

    return [
        lasting("the log's reader is gone", lambda target: target.log.gone()),
        lasting("the log's reader sleeps", lambda target: target.log.asleep()),
        lasting("TMPDIR is full", lambda target: machine.full(machine.tmp), (507,), needs),
        lasting(f"{MEMORY_FOLDER} is full", lambda target: machine.full(MEMORY_FOLDER), (), needs),
        lasting(f"one packet in {ONE_IN} is lost", lambda target: machine.losing_packets(ONE_IN), (), needs),
        lasting("a model's folder is unreadable", lambda target: _unreadable(target.models / MODEL)),
        lasting("a model's folder is gone", lambda target: _gone(target.models / MODEL)),
        lasting("a model's files are cut in half", lambda target: _truncated(target.models / MODEL)),
        Fault("a unix socket's file is removed", _remove_socket),
    ]


def _in_block(block: Callable[[Target], AbstractContextManager[None]], target: Target) -> None:
    with block(target):
        target.last(SECONDS)


@contextmanager
def _unreadable(folder: Path) -> Iterator[None]:
    mode = folder.stat().st_mode
    folder.chmod(0)
    try:
        yield
    finally:
        folder.chmod(mode)


@contextmanager
def _gone(folder: Path) -> Iterator[None]:
    away = folder.parent.with_name(f"{folder.name}-away")
    folder.rename(away)
    try:
        yield
    finally:
        away.rename(folder)


@contextmanager
def _truncated(folder: Path) -> Iterator[None]:
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    try:
        for path, content in contents.items():
            os.truncate(path, len(content) // 2)
        yield
    finally:
        for path, content in contents.items():
            path.write_bytes(content)


def _remove_socket(target: Target) -> None:
    target.random.choice(sorted(target.run_dir.glob("*.sock"))).unlink()


def clock_faults(clock: Path) -> list[Fault]:
    """Return those of a stack whose wall clock is the one of libfaketime, at ``clock``."""
    needs = "" if FAKETIME.exists() else "needs Debian's libfaketime"
    # Version 0.9.10 fails at this: Python sleeps until a time of the clock that is not faked.
    sleep = [sys.executable, "-c", "import time; time.sleep(0.01)"]
    environ = os.environ | dict(clock_settings(clock))
    if subprocess.run(sleep, env=environ, capture_output=True, check=False).returncode:  # noqa: S603 - our own words
        needs = "needs a libfaketime with which Python can sleep"
    return [
        Fault(f"the clock is {name} by an hour", partial(_in_block, partial(_shifted, clock, hours)), forbidden=needs)
        for name, hours in (("set forward", 1), ("set back", -1))
    ]


def clock_settings(clock: Path) -> Settings:
    """Return what has a stack take its wall clock from ``clock``, and its others from the kernel."""
    if not FAKETIME.exists():
        return ()
    return (
        ("LD_PRELOAD", str(FAKETIME)),
        ("FAKETIME_TIMESTAMP_FILE", str(clock)),
        ("FAKETIME_CACHE_DURATION", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    )


@contextmanager
def _shifted(clock: Path, hours: int, target: Target) -> Iterator[None]:
    set_clock(clock, hours)
    try:
        yield
    finally:
        set_clock(clock, 0)


def set_clock(clock: Path, hours: int) -> None:
    """Set libfaketime's clock at once."""
    new = clock.with_suffix(".new")
    new.write_text(f"{hours * HOUR:+d}\n")
    new.rename(clock)
