"""Kills one process after another, each kind as often, and measures how long it takes until all is well again."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

from soak.ledger import Kill, Ledger
from soak.stack import by_kind

CALM_SECONDS, RIGHT_ANSWERS = 2.0, 10
"""All is well when the process is back and, for so long, so many good requests were right and none was not."""
BACK_SECONDS = 300.0
"""A busy machine needs long to start what was killed; what takes longer never comes."""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


class NeverBack(Exception):
    """A killed process was not replaced, or requests went on failing; the message says which."""


class Killer:
    """Kills processes of some kinds below ``supervisor`` until ``stop`` is set, with ``pause`` seconds between."""

    def __init__(
        self, supervisor: int, kinds: Sequence[str], ledger: Ledger, pause: float, say: Callable[[str], None]
    ) -> None:
        self._supervisor = supervisor
        self._all_kinds = kinds
        self._ledger = ledger
        self._pause = pause
        self._say = say
        self._random = random.Random(0)  # noqa: S311 - not a secret
        self.stop = threading.Event()
        self.failure = ""

    def run(self) -> None:
        """Kill until told to stop; what goes wrong ends it, and is in ``failure``."""
        try:
            for kind in self._kinds():
                if self.stop.wait(self._pause * self._random.uniform(0.5, 1.5)):
                    return
                self._kill_one(kind)
        except (NeverBack, psutil.Error, OSError) as problem:
            self.failure = str(problem)

    def _kinds(self) -> Iterator[str]:
        """Every kind once, in random order, again and again: none comes so often that the supervisor gives up."""
        while self._all_kinds:
            yield from self._random.sample(self._all_kinds, len(self._all_kinds))

    def _kill_one(self, kind: str) -> None:
        before = by_kind(self._supervisor)
        victim = self._random.choice(before[kind])
        number = self._random.choice(SIGNALS)
        with self._ledger.killing(kind, number.name) as kill:
            os.kill(victim.pid, number)
        kill.back_after = self._wait(kill, victim, {name: len(before[name]) for name in self._all_kinds})
        self._say(f"{kind} {victim.pid} killed with {number.name}: all well after {kill.back_after:.1f} s")

    def _wait(self, kill: Kill, victim: psutil.Process, complete: dict[str, int]) -> float:
        replaced: float | None = None
        while time.monotonic() - kill.at < BACK_SECONDS:
            if replaced is None and self._whole(victim, complete):
                replaced = time.monotonic()
            failed, right = self._ledger.failing_since(kill.at)
            calm = time.monotonic() - failed >= CALM_SECONDS and right >= RIGHT_ANSWERS
            if replaced is not None and calm:
                return max(replaced, failed) - kill.at
            time.sleep(0.05)
        raise NeverBack(f"{kill.kind} was killed with {kill.signal}, and after {BACK_SECONDS:g} s not all was well")

    def _whole(self, victim: psutil.Process, complete: dict[str, int]) -> bool:
        now = by_kind(self._supervisor)
        ids = {process.pid for processes in now.values() for process in processes}
        return victim.pid not in ids and all(len(now[kind]) >= count for kind, count in complete.items())
