"""Faults of processes: killed, crashed, frozen, without descriptors, without processors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from resource import RLIMIT_NOFILE

import psutil

from faults.client import Via
from faults.fault import Fault, Target
from faults.stack import KINDS, SUPERVISOR
from lightbox.model_runtime.cores import available_cores
from lightbox.transports.pending_reload import FILE, find_pending

ALL = tuple(Via)
CUTS = {
    "nginx master": ALL,
    "nginx worker": ALL,
    "gRPC front": (Via.GRPC,),
    "stream worker": (Via.STREAM,),
}
"""The connections that a kind of process holds."""
CHILDREN = {"gunicorn master": ("gunicorn worker",), "nginx master": ("nginx worker",)}
"""The kinds that end with another one."""
SHORT_SECONDS, PATIENCE, LACK_SECONDS, BUSY_SECONDS = 2.0, 300.0, 10.0, 30.0
IN_A_LOAD = "gunicorn worker in a load"
"""In the middle of a load: the model server has the model, the worker's list has not."""
LOOK_SECONDS, TOLD_SECONDS = 0.005, 0.02
"""Seconds between two checks for a load, which takes 0.1 s."""


def faults(kinds: Sequence[str] = KINDS, patience: float = PATIENCE) -> list[Fault]:
    """Return the faults of these kinds of processes; a frozen one has ``patience`` seconds to be replaced."""
    found = []
    for kind in kinds:
        cuts, ends = CUTS.get(kind, ()), (kind, *CHILDREN.get(kind, ()))
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            found.append(Fault(f"{kind}: {number.name}", partial(_kill, kind, number), cuts, ends))
        found.append(Fault(f"{kind}: frozen until it is replaced", partial(_freeze, kind, patience), cuts, ends))
    for kind in (*kinds, SUPERVISOR):
        found.append(Fault(f"{kind}: frozen for {SHORT_SECONDS:.0f} s", partial(_freeze_shortly, kind)))
        found.append(Fault(f"{kind}: no file descriptors", partial(_no_descriptors, kind), CUTS.get(kind, ())))
    return [*found, Fault("all cores taken", _take_cores, forbidden="" if _can_hurry() else "needs root: nice 0")]


def in_a_load() -> Fault:
    """Return the death of a worker while it loads a model."""
    return Fault(f"{IN_A_LOAD}: SIGKILL", _kill_in_a_load, ends=("gunicorn worker",))


def _kill(kind: str, number: signal.Signals, target: Target) -> psutil.Process:
    victim = target.any_of(kind)
    victim.send_signal(number)
    return victim


def _freeze(kind: str, patience: float, target: Target) -> psutil.Process:
    """Stop a process until its supervisor has killed it."""
    victim = target.any_of(kind)
    victim.suspend()
    deadline = time.monotonic() + patience
    with _revived(victim):
        while _lives(victim) and time.monotonic() < deadline and not target.stop.wait(0.05):
            pass
    return victim


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def _revived(process: psutil.Process) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def _freeze_shortly(kind: str, target: Target) -> None:
    victim = target.any_of(kind)
    victim.suspend()
    with _revived(victim):
        target.stop.wait(SHORT_SECONDS)


def _no_descriptors(kind: str, target: Target) -> None:
    """Leave a process with the descriptors that it has open."""
    victim = target.any_of(kind)
    before = victim.rlimit(RLIMIT_NOFILE)
    victim.rlimit(RLIMIT_NOFILE, (first_free_descriptor(victim), before[1]))
    try:
        target.last(LACK_SECONDS)
    finally:
        with suppress(psutil.NoSuchProcess):
            victim.rlimit(RLIMIT_NOFILE, before)


def first_free_descriptor(process: psutil.Process) -> int:
    """Return the limit that leaves a process no further descriptor: it bounds their numbers, not how many there are."""
    used = {int(file.name) for file in Path(f"/proc/{process.pid}/fd").iterdir()}
    return next(number for number in count() if number not in used)


def _can_hurry() -> bool:
    return os.getpriority(os.PRIO_PROCESS, 0) <= 0 or os.geteuid() == 0


def _take_cores(target: Target) -> None:
    """Run as many loops at nice 0 as there are cores."""
    command = [sys.executable, "-c", "import os; os.setpriority(os.PRIO_PROCESS, 0, 0)\nwhile True: pass"]
    with ExitStack() as stack:
        for _ in range(available_cores()):
            stack.callback(subprocess.Popen(command).kill)  # noqa: S603 - our own words
        target.last(BUSY_SECONDS)


def _kill_in_a_load(target: Target) -> psutil.Process | None:
    """Wait for a model load and kill its worker."""
    while not target.stop.wait(LOOK_SECONDS):
        pending = find_pending(target.run_dir, 0)
        if pending and pending.change == "load" and (worker := holder(target.run_dir / FILE.format(0))):
            time.sleep(TOLD_SECONDS)
            victim = psutil.Process(worker)
            victim.kill()
            return victim
    return None


def holder(lock: Path) -> int | None:
    """Return the process that holds a lock, from the kernel's list; None if the lock is free."""
    with suppress(FileNotFoundError):
        inode = str(lock.stat().st_ino)
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return next((int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}")), None)
    return None
