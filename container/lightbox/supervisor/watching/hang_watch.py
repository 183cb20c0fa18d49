"""Ends processes that hang: they do not answer their probes, and use no processor time.

A slow response alone proves nothing on a busy machine, and an idle process is no fault either. Each process has a clock
of silence. A response sets it to zero. Without one it runs; while the process works, or waits for a processor, it runs
at a tenth of the speed. (docs/adr/110-hung-processes.md)
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lightbox.base.telemetry.logs import log
from lightbox.supervisor.child import Child

LOOK_SECONDS = 1.0
MOST_SECONDS = 2.0
"""The most that one look adds to a clock: this process may have been paused together with the others."""
SCAN_LOOKS = 10
"""Looks after which the processes of each group are listed again."""
BUSY_WEIGHT = 0.1
KNOWN_SHARE = 0.2
"""Part of the limit after which a process is known not to answer: by default /ping is 503 within five seconds."""

Probe = Callable[[int], float | None]
"""Returns the time of a process's last response, by any clock; None for a process that is not watched."""


class Activity(NamedTuple):
    """A process in the kernel's words: its group, its start and its processor time in ticks, its state."""

    group: int
    born: int
    ticks: int
    state: str


def activity(process: int) -> Activity | None:
    """Return the activity of a process, None if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state = fields[0].decode()
    used = Activity(int(fields[2]), int(fields[19]), int(fields[11]) + int(fields[12]), state)
    return None if state in "ZX" else used


def has_runnable_thread(process: int) -> bool:
    """Return whether any thread of a process runs, or waits for a processor."""
    with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
        for stat in Path(f"/proc/{process}/task").glob("*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):  # only the thread
                if stat.read_bytes().rpartition(b") ")[2][:1] == b"R":
                    return True
    return False


def members(groups: Collection[int]) -> dict[int, int]:
    """Return the processes of these groups, each with its group."""
    processes = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = {process: seen.group for process in processes if (seen := activity(process))}
    return {process: group for process, group in found.items() if group in groups}


def runs(process: int) -> float | None:
    """Return the time if a process is not stopped, and does not wait for a disk: a probe for what cannot be asked."""
    seen = activity(process)
    return time.monotonic() if seen and seen.state not in "TtD" else 0.0


class Silence:
    """The clock of one process, in seconds. It starts below zero for one that may take ``allowance`` to begin."""

    def __init__(self, born: int, allowance: float, last_response: float) -> None:
        """``last_response`` is the time of the last one so far: one of an earlier process."""
        self.born = born
        self.seconds = -allowance
        self.has_answered = False
        self._last_response = last_response
        self._ticks = 0

    def note(self, last_response: float, ticks: int, elapsed: float, is_runnable: Callable[[], bool]) -> None:
        """Advance the clock by ``elapsed``, given the time of the last response and the processor time in ticks."""
        worked, self._ticks = ticks != self._ticks, ticks
        if last_response != self._last_response and last_response:
            self.seconds, self.has_answered = 0.0, True
        else:
            elapsed = min(elapsed, MOST_SECONDS)
            self.seconds += BUSY_WEIGHT * elapsed if worked or is_runnable() else elapsed
        self._last_response = last_response


@dataclass(frozen=True)
class Watched:
    """A child: ``probe`` is for its first process, ``workers`` for the others of its group. ``allowance`` are the
    further seconds of a first process that has not answered yet. ``on_silence`` learns at each look whether it is known
    not to answer."""

    child: Child
    probe: Probe
    allowance: float = 0.0
    workers: Probe = lambda _: None
    on_silence: Callable[[bool], object] = lambda _: None


class HangWatch:
    """Follows all children, and kills each process whose silence reaches ``seconds``; its parent starts a new one.

    ``count`` is called with the name of each killed one.
    """

    def __init__(self, watched: Sequence[Watched], seconds: float, count: Callable[[str], object]) -> None:
        self._watched = watched
        self._seconds = seconds
        self._count = count
        self._silences: dict[int, Silence] = {}
        self._members: dict[int, int] = {}
        self._looks = 0

    async def follow(self, stopping: asyncio.Event) -> None:
        """Look at all processes each second until a stop, in which processes that finish their work end by and by."""
        last = time.monotonic()
        while not stopping.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if not stopping.is_set():
                self.look(now - last)
            last = now

    def look(self, elapsed: float) -> None:
        """Look at all processes once, ``elapsed`` seconds after the last time."""
        if self._looks % SCAN_LOOKS == 0:
            self._members = members([group for each in self._watched for group in each.child.groups])
        self._looks += 1
        seen: set[int] = set()
        for each in self._watched:
            first, name = each.child.process, each.child.name
            is_silent = first is not None and self._look_at(first, name, each.probe, each.allowance, elapsed)
            each.on_silence(is_silent)
            others = {process for process, group in self._members.items() if group in each.child.groups} - {first}
            for process in others:
                self._look_at(process, f"{name}_worker", each.workers, 0.0, elapsed)
            seen |= others | {first or 0}
        self._silences = {process: silence for process, silence in self._silences.items() if process in seen}

    def _look_at(self, process: int, name: str, probe: Probe, allowance: float, elapsed: float) -> bool:
        """Look at one process, and kill it if it hangs; return whether it is known not to answer."""
        used = activity(process)
        last_response = probe(process) if used is not None else None
        if used is None or last_response is None:
            return False
        silence = self._silences.get(process)
        if silence is None or silence.born != used.born:
            silence = self._silences[process] = Silence(used.born, allowance, last_response)
        silence.note(last_response, used.ticks, elapsed, lambda: has_runnable_thread(process))
        if silence.seconds >= self._seconds:
            if allowance and not silence.has_answered:
                seconds, setting = silence.seconds + allowance, "SAGEMAKER_TFS_WAIT_TIME_SECONDS"
            else:
                seconds, setting = silence.seconds, "LIGHTBOX_HANG_SECONDS"
            log(
                f"{name} (process {process}) has not answered for {seconds:.0f} s: it is killed and started again "
                f"({setting})"
            )
            del self._silences[process]
            self._count(name)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            return False  # the next one may answer before the next look
        return silence.seconds >= KNOWN_SHARE * self._seconds
