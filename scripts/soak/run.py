"""The run: a stack, clients, hostile clients and a killer for some time."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import psutil

from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from soak import processes
from soak.killer import BACK_SECONDS, Killer
from soak.ledger import Ledger

THINK_SECONDS = 0.3
"""Most time between two requests of one client: the run is about faults, not about the highest load."""
STATUS_SECONDS = 10.0


@dataclass(frozen=True)
class Enough:
    """What a run has to see, however long it takes: kills of each kind of process, and requests of both kinds."""

    kills: int = 0
    answers: int = 0
    refusals: int = 0

    def seen(self, kinds: Sequence[str], ledger: Ledger) -> bool:
        """Tell whether all of it has been seen."""
        killed = Counter(kill.kind for kill in list(ledger.kills) if kill.back_after is not None)
        answered, refused = ledger.counts["200"] >= self.answers, ledger.counts["4xx"] >= self.refusals
        return answered and refused and all(killed[kind] >= self.kills for kind in kinds)


@dataclass
class Result:
    """What a run gave; memory in bytes by kind of process."""

    name: str
    kinds: Sequence[str]
    seconds: float
    ledger: Ledger
    before: Mapping[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Client(Protocol):
    """One of many; each call of ``act`` is one thing that it does."""

    def act(self) -> None:
        """Send what is next and note what comes of it."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Traffic(Protocol):
    """Who calls a stack, which it is, and which kinds of its processes are killed."""

    @property
    def stack(self) -> Stack:
        """What is served, and how."""
        ...

    @property
    def kinds(self) -> Sequence[str]:
        """Some of processes.KINDS."""
        ...

    def clients(self, server: Running, ledger: Ledger) -> Sequence[Client]:
        """Return the clients of a stack that serves and is at rest. Raises RuntimeError when it answers wrongly."""
        ...


class Soak:
    """One run of a traffic."""

    def __init__(
        self, traffic: Traffic, folder: Path, seconds: float, kill_pause: float, enough: Enough | None = None
    ) -> None:
        self._traffic = traffic
        self._enough = enough or Enough()
        self._seconds = seconds
        self._kill_pause = kill_pause
        self._folder = folder
        self._ledger = Ledger()
        self._enough_kills, self._stop = threading.Event(), threading.Event()
        self._began = time.monotonic()

    def run(self) -> Result:
        """Serve, load, kill, stop; the result's ``failures`` is empty when nothing went wrong."""
        self._say(f"starting serve.sh for {self._traffic.stack.name}")
        server = self._traffic.stack.start(self._folder)
        try:
            result = self._under_load(server)
            self._say("SIGTERM")
            result.failures += _stop_problems(server)
        finally:
            server.stop()
        return result

    def _under_load(self, server: Running) -> Result:
        pid = server.pid
        clients = self._traffic.clients(server, self._ledger)
        name, kinds = self._traffic.stack.name, self._traffic.kinds
        result = Result(name, kinds, self._seconds, self._ledger, before=processes.memory(pid))
        killer = Killer(pid, kinds, self._ledger, self._kill_pause, self._enough_kills, self._say)
        work = [partial(self._drive, client, number) for number, client in enumerate(clients)]
        threads = [threading.Thread(target=self._guarded, args=(each, result)) for each in (*work, killer.run)]
        for thread in threads:
            thread.start()
        self._watch(pid, result, threads[-1])
        for thread in threads:
            thread.join()
        result.after = processes.memory(pid)
        result.failures += [killer.failure] if killer.failure else []
        return result

    def _guarded(self, work: Callable[[], None], result: Result) -> None:
        """An error of the soak itself ends it, and is not taken for a calm."""
        try:
            work()
        except Exception as error:
            result.failures.append(f"the soak itself failed: {error!r}")
            self._stop.set()
            raise

    def _drive(self, client: Client, number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - not a secret
        while not self._stop.is_set():
            client.act()
            self._stop.wait(chance.uniform(0, THINK_SECONDS))
        client.close()

    def _watch(self, pid: int, result: Result, killing: threading.Thread) -> None:
        """Note memory and say how it goes, until time is up and enough was seen; clients go on until the last kill is
        recovered from."""
        end, status = time.monotonic() + self._seconds, time.monotonic() + STATUS_SECONDS
        while killing.is_alive() and not self._stop.wait(1.0):
            if time.monotonic() >= end and self._enough.seen(self._traffic.kinds, self._ledger):
                break
            try:
                sizes = processes.memory(pid)
            except psutil.NoSuchProcess:
                result.failures.append("the whole of Lightbox has ended")
                break
            result.highest = {kind: max(size, result.highest.get(kind, 0)) for kind, size in sizes.items()}
            if time.monotonic() > status:
                status += STATUS_SECONDS
                self._say(", ".join(f"{name} {self._ledger.counts[name]}" for name in STATUS))
        self._enough_kills.set()
        killing.join()
        self._stop.set()

    def _say(self, text: str) -> None:
        print(f"== {time.monotonic() - self._began:6.1f} s  {text}", file=sys.stderr, flush=True)


STATUS = ("requests", "accepted", "200", "4xx", "503", "cut by nginx's death", "not sent", "not connected", "lost")


def _stop_problems(server: Running) -> list[str]:
    family = psutil.Process(server.pid).children(recursive=True) if server.server.process.poll() is None else []
    server.server.process.terminate()
    code = server.server.process.wait(BACK_SECONDS)
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [f"exit code {code} after SIGTERM"] * (code != 0) + [f"still there: {child}" for child in left]
