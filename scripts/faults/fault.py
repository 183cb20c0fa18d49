"""A fault, and the stack that it is done to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from benchmark.servers import Running, Stack
from faults.callers import Act
from faults.client import Via
from faults.log_reader import LogReader
from faults.stack import Traffic


@dataclass(frozen=True)
class Target:
    """A stack under load. ``call`` adds callers for some seconds.

    ``lasting`` is a factor for how long faults last that have no other end.
    """

    server: Running
    traffic: Traffic
    log: LogReader
    random: Random
    stop: threading.Event
    call: Callable[[Sequence[Act], float], None]
    lasting: float = 1.0

    def last(self, seconds: float) -> None:
        """Wait while a fault lasts that takes these seconds by default."""
        self.stop.wait(seconds * self.lasting)

    def any_of(self, kind: str) -> psutil.Process:
        """Return one of the processes of a kind."""
        return self.random.choice(self.traffic.kinds(self.server.pid)[kind])

    @property
    def models(self) -> Path:
        """The folder that it serves."""
        assert isinstance(self.traffic.stack, Stack), "another server has no folder of models"
        return self.traffic.stack.models

    @property
    def run_dir(self) -> Path:
        """The folder of the stack's sockets and generated files."""
        assert self.server.temporary is not None, "a stack has a folder of its own"
        return next(self.server.temporary.glob("lightbox-*"))


@dataclass(frozen=True)
class Fault:
    """A fault. ``do`` begins it, waits, and ends it; it returns a process that must be replaced.

    ``cuts`` and ``ends`` are the kinds of connections and of processes that it may end, ``may`` the statuses that it
    may cause. ``forbidden`` says why this machine cannot do it.
    """

    name: str
    do: Callable[[Target], psutil.Process | None]
    cuts: tuple[Via, ...] = ()
    ends: tuple[str, ...] = ()
    may: tuple[int, ...] = ()
    forbidden: str = ""
