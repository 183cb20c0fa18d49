"""Kills one process after another, all kinds equally often, and measures the recovery times."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from benchmark.servers import Running
from lightbox.telemetry import say
from lightbox.transports.pending_reload import FILE, find_pending
from soak.ledger import Kill, Ledger
from soak.stack import by_kind

CALM_SECONDS, RIGHT_ANSWERS = 2.0, 10
"""Recovery: the process is back and, for this many seconds, this many good requests succeeded without a failure."""
BACK_SECONDS = 300.0
"""Time limit of a restart, generous for a busy machine."""
IN_A_LOAD = "worker in a load"
"""A gunicorn worker in the middle of a load: the model server has it, the list has not."""
LOOK_SECONDS, TOLD_SECONDS = 0.005, 0.02
"""Seconds between two checks for a load, which takes 0.1 s."""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


class NotRecovered(Exception):
    """A killed process was not replaced, or requests kept failing; the message says which."""


class Killer:
    """Kills processes of some kinds of a stack until ``stop`` is set, with ``pause`` seconds between."""

    def __init__(self, server: Running, kinds: Sequence[str], ledger: Ledger, pause: float) -> None:
        self._server = server
        self._all_kinds = kinds
        self._ledger = ledger
        self._pause = pause
        self._random = random.Random(0)  # noqa: S311 - not a secret
        self.stop = threading.Event()

    def run(self) -> None:
        """Kill until stopped; raise NotRecovered, psutil.Error or OSError."""
        for kind in self._kinds():
            if self.stop.wait(self._pause * self._random.uniform(0.5, 1.5)):
                return
            self._kill_one(kind)

    def _kinds(self) -> Iterator[str]:
        """Yield all kinds in random order, repeatedly, so that no kind exceeds the supervisor's restart limit."""
        while self._all_kinds:
            yield from self._random.sample(self._all_kinds, len(self._all_kinds))

    def _kill_one(self, kind: str) -> None:
        before = by_kind(self._server.pid)
        victim = self._in_a_load() if kind == IN_A_LOAD else self._random.choice(before[kind])
        if victim is None:
            return
        number = self._random.choice(SIGNALS)
        kill = self._ledger.kill(kind, victim, number)
        kill.back_after = self._wait(kill, victim, before)
        say.progress(f"{kind} {victim.pid} killed with {number.name}: all well after {kill.back_after:.1f} s")

    def _in_a_load(self) -> psutil.Process | None:
        """Wait for a model load and return its worker; None when stopped."""
        assert self._server.temporary is not None, "a stack has a folder of its own"
        run_dir = next(self._server.temporary.glob("lightbox-*"))
        while not self.stop.wait(LOOK_SECONDS):
            pending = find_pending(run_dir, 0)
            if pending and pending.change == "load" and (worker := holder(run_dir / FILE.format(0))):
                time.sleep(TOLD_SECONDS)
                return psutil.Process(worker)
        return None

    def _wait(self, kill: Kill, victim: psutil.Process, before: dict[str, list[psutil.Process]]) -> float:
        replaced: float | None = None
        while time.monotonic() - kill.at < BACK_SECONDS:
            if replaced is None and self._whole(victim, before):
                replaced = time.monotonic()
            failed, right = self._ledger.failing_since(kill.at)
            calm = time.monotonic() - failed >= CALM_SECONDS and right >= RIGHT_ANSWERS
            if replaced is not None and calm:
                return max(replaced, failed) - kill.at
            time.sleep(0.05)
        raise NotRecovered(f"{kill.kind} was killed with {kill.signal}, and after {BACK_SECONDS:g} s not all was well")

    def _whole(self, victim: psutil.Process, before: dict[str, list[psutil.Process]]) -> bool:
        now = by_kind(self._server.pid)
        is_gone = all(victim not in processes for processes in now.values())
        return is_gone and all(len(now[kind]) >= len(processes) for kind, processes in before.items())


def holder(lock: Path) -> int | None:
    """Return the process that holds a lock, from the kernel's list; None if the lock is free."""
    with suppress(FileNotFoundError):
        inode = str(lock.stat().st_ino)
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return next((int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")), None)
    return None
