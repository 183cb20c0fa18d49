"""Faults of what surrounds the processes: files, disks, the network, the log's reader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from faults.fault import Fault, Target
from faults.own_machine import MEMORY_FOLDER, OwnMachine

SECONDS = 10.0
ONE_IN = 50
MODEL = "rows"
"""The model whose folder is harmed; it has files of its own."""


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
