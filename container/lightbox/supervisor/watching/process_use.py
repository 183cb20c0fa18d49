"""The memory and processor time of Lightbox's processes, for /metrics."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from lightbox.base.telemetry.metrics import CPU, MEMORY, Metric

SUPERVISOR = "lightbox"
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROCESSES = Path("/proc")
# In /proc/PID/stat, behind the name in brackets.
_GROUP, _TIMES, _RESIDENT = 2, slice(11, 15), 21


def process_use(groups: Mapping[str, Collection[int]]) -> dict[Metric, dict[str, float]]:
    """Return bytes of memory and seconds of processor time, each by name.

    ``groups`` are the process groups of each child: a worker's time stays in its master's after its end. The supervisor
    counts as SUPERVISOR, without its children.
    """
    names = {group: name for name, numbers in groups.items() for group in numbers}
    memory, seconds = dict.fromkeys((SUPERVISOR, *groups), 0.0), dict.fromkeys((SUPERVISOR, *groups), 0.0)
    for entry in _PROCESSES.iterdir():
        with suppress(OSError, ValueError, IndexError):  # it has ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            is_own = int(entry.name) == os.getpid()
            name = SUPERVISOR if is_own else names.get(int(fields[_GROUP]))
            if name is not None:
                memory[name] += int(fields[_RESIDENT]) * _PAGE
                seconds[name] += sum(map(int, fields[_TIMES][: 2 if is_own else 4])) * _TICK
    return {MEMORY: memory, CPU: seconds}
