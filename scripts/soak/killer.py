"""Kills one process after another, all kinds equally often, and measures the recovery times."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil

from benchmark.servers import Running
from lightbox.base.telemetry import say
from lightbox.transports.pending_reload import FILE, find_pending
from soak.ledger import Kill, Ledger
from soak.stack import by_kind

CALM_SECONDS, RIGHT_RESPONSES = 2.0, 10
"""Recovery: the process is back and, for this many seconds, this many good requests succeeded without a failure."""
BACK_SECONDS = 300.0
"""Time limit of a restart, generous for a busy machine."""
IN_A_LOAD = "worker in a load"
"""A gunicorn worker in the middle of a load: the model server has it, the list has not."""
LOOK_SECONDS, TOLD_SECONDS = 0.005, 0.02
"""Seconds between two checks for a load, which takes 0.1 s."""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


def kill_until(stop: threading.Event, server: Running, kinds: Sequence[str], ledger: Ledger, pause: float) -> None:
    """Kill processes of some kinds of a stack until ``stop`` is set, with about ``pause`` seconds between.

    All kinds come in random order, repeatedly, so that no kind exceeds the supervisor's restart limit. Raises
    ServerFailed if a killed process is not replaced or requests keep failing, psutil.Error and OSError.
    """
    random = Random(0)  # noqa: S311 - not a secret
    while kinds:
        for kind in random.sample(kinds, len(kinds)):
            if stop.wait(pause * random.uniform(0.5, 1.5)):
                return
            before = by_kind(server.pid)
            victim = _in_a_load(server, stop) if kind == IN_A_LOAD else random.choice(before[kind])
            if victim is None:
                return
            kill = ledger.kill(kind, victim, random.choice(SIGNALS))
            say.progress(f"{kind} {victim.pid} killed with {kill.signal}")
            kill.back_after = _recovery(server, ledger, kill, victim, before)
            say.progress(f"all well after {kill.back_after:.1f} s")


def _in_a_load(server: Running, stop: threading.Event) -> psutil.Process | None:
    """Wait for a model load and return its worker; None when stopped."""
    assert server.temporary is not None, "a stack has a folder of its own"
    run_dir = next(server.temporary.glob("lightbox-*"))
    while not stop.wait(LOOK_SECONDS):
        pending = find_pending(run_dir, 0)
        if pending and pending.change == "load" and (worker := holder(run_dir / FILE.format(0))):
            time.sleep(TOLD_SECONDS)
            return psutil.Process(worker)
    return None


def _recovery(
    server: Running, ledger: Ledger, kill: Kill, victim: psutil.Process, before: dict[str, list[psutil.Process]]
) -> float:
    """Wait until all is well; return the seconds from the kill."""

    def is_replaced() -> bool:
        now = by_kind(server.pid)
        return not victim.is_running() and all(len(now[kind]) >= len(before[kind]) for kind in before)

    def is_calm() -> bool:
        return time.monotonic() - ledger.failed_at >= CALM_SECONDS and ledger.right_since >= RIGHT_RESPONSES

    server.server.wait_until(is_replaced, BACK_SECONDS, pause=0.05)
    replaced = time.monotonic()
    server.server.wait_until(is_calm, kill.at + BACK_SECONDS - replaced)
    return max(replaced, ledger.failed_at) - kill.at


def holder(lock: Path) -> int | None:
    """Return the process that holds a lock, from the kernel's list; None if the lock is free."""
    with suppress(FileNotFoundError):
        inode = str(lock.stat().st_ino)
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return next((int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")), None)
    return None
