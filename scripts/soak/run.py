"""The run: a stack, clients, hostile clients and a killer for some time."""

from __future__ import annotations

import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from benchmark.resources import Sizes, noting_memory
from benchmark.servers import Running, Stack
from soak.client import Client, Fate, Outcome, Request
from soak.good import Check
from soak.killer import BACK_SECONDS, Killer
from soak.ledger import Ledger
from soak.stack import lasting

THINK_SECONDS = 0.3
"""Most time between two requests of one client: the run is about faults, not about the highest load."""
STATUS_SECONDS = 10.0
PING = Request("ping", "/ping", method="GET")
STATUS = ("requests", "accepted", "200", "4xx", "503", "cut by nginx's death", "not sent", "not connected", "lost")


class Actor(ABC):
    """One of many who call a stack."""

    def __init__(self, client: Client, ledger: Ledger, seed: int = 0) -> None:
        self.client = client
        self.ledger = ledger
        self.random = random.Random(seed)  # noqa: S311 - not a secret

    @abstractmethod
    def act(self) -> None:
        """Send what is next and note what comes of it."""

    def good(self, request: Request, check: Check | None = None) -> tuple[Outcome, bool]:
        """Send what must be answered; return the outcome, and whether it was answered rightly."""
        outcome = self.client.send(request)
        return outcome, self.ledger.good(outcome, check(outcome.body) if check and outcome.status == 200 else "")

    def note(self, outcome: Outcome, *expected: int) -> None:
        """Note a request that must be answered, and with one of some statuses."""
        if outcome.fate is Fate.ANSWERED:
            self.ledger.hostile(outcome, expected)
        else:
            self.ledger.good(outcome, "")


@dataclass(frozen=True)
class Traffic:
    """Which stack is called, which kinds of its processes are killed, and who calls it.

    ``actors`` are made for a stack that serves and is at rest; that raises RuntimeError when it answers wrongly. They
    wait ``think_seconds`` at most between two requests. ``probe`` is answered with 200 before the load and after it.
    Where nothing is killed, no process may end. Memory is looked at every ``look_seconds``.
    """

    stack: Stack
    kinds: Sequence[str]
    actors: Callable[[Running, Ledger], Sequence[Actor]]
    probe: Request = PING
    think_seconds: float = THINK_SECONDS
    look_seconds: float = 1.0


@dataclass(frozen=True)
class Enough:
    """What a run has to see: seconds, and however long they take, kills of each kind and requests of both kinds."""

    seconds: float
    kills: int = 0
    answers: int = 0
    refusals: int = 0

    def seen(self, kinds: Sequence[str], ledger: Ledger) -> bool:
        """Tell whether all but the seconds has been seen."""
        killed = Counter(kill.kind for kill in list(ledger.kills) if kill.back_after is not None)
        answered, refused = ledger.counts["200"] >= self.answers, ledger.counts["4xx"] >= self.refusals
        return answered and refused and all(killed[kind] >= self.kills for kind in kinds)


@dataclass
class Result:
    """What a run gave; memory from before the load to after it. ``failures`` is empty when nothing went wrong."""

    name: str
    kinds: Sequence[str]
    ledger: Ledger = field(default_factory=Ledger)
    memory: list[Sizes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether nothing was lost and all came back."""
        return not (self.ledger.lost or self.failures)


def soak(traffic: Traffic, folder: Path, pause: float, enough: Enough) -> Result:
    """Serve, load, kill with ``pause`` seconds between, stop."""
    _say(f"starting serve.sh for {traffic.stack.name}")
    with closing(traffic.stack.start(folder)) as server:
        result = _under_load(traffic, server, pause, enough)
        _say("SIGTERM")
        result.failures += _stop_problems(server)
    return result


def _under_load(traffic: Traffic, server: Running, pause: float, enough: Enough) -> Result:
    result, stop = Result(traffic.stack.name, traffic.kinds), threading.Event()
    result.failures += _probe(traffic.probe, server, "before")
    actors, before = traffic.actors(server, result.ledger), lasting(server.pid)
    killer = Killer(server.pid, traffic.kinds, result.ledger, pause, _say)

    def guarded(work: Callable[[], None]) -> None:
        """An error of the soak itself ends it, and is not taken for a calm."""
        try:
            work()
        except Exception as error:
            result.failures.append(f"the soak itself failed: {error!r}")
            stop.set()
            raise

    def drive(actor: Actor) -> None:
        while not stop.is_set():
            actor.act()
            stop.wait(actor.random.uniform(0, traffic.think_seconds))
        actor.client.close()

    with (
        noting_memory(server.pid, traffic.look_seconds) as result.memory,
        ThreadPoolExecutor(len(actors) + 1) as pool,
    ):
        killing = pool.submit(guarded, killer.run)
        for actor in actors:
            pool.submit(guarded, partial(drive, actor))
        try:
            _watch(server, result, enough, lambda: not (killer.failure or stop.wait(1.0)))
            killer.stop.set()
            wait([killing])  # clients go on until the last kill is recovered from
        finally:
            killer.stop.set()
            stop.set()
    result.failures += [killer.failure] if killer.failure else []
    result.failures += _probe(traffic.probe, server, "after")
    if not traffic.kinds and (gone := before - lasting(server.pid)):
        result.failures.append(f"{len(gone)} processes have ended under load")
    return result


def _probe(probe: Request, server: Running, when: str) -> list[str]:
    outcome = Client(server.address.port).send(probe)
    right = outcome.status == 200
    return [] if right else [f"{probe.name} {when} the load: {outcome.fate}, status {outcome.status} {outcome.detail}"]


def _watch(server: Running, result: Result, enough: Enough, goes_on: Callable[[], bool]) -> None:
    """Say how it goes, until time is up and enough was seen."""
    end, status = time.monotonic() + enough.seconds, time.monotonic() + STATUS_SECONDS
    while goes_on():
        if time.monotonic() >= end and enough.seen(result.kinds, result.ledger):
            return
        if server.server.process.poll() is not None:
            result.failures.append("the whole of Lightbox has ended")
            return
        if time.monotonic() > status:
            status += STATUS_SECONDS
            _say(", ".join(f"{name} {result.ledger.counts[name]}" for name in STATUS))


def _stop_problems(server: Running) -> list[str]:
    process = server.server.process
    family = psutil.Process(server.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    code = process.wait(BACK_SECONDS)
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [f"exit code {code} after SIGTERM"] * (code != 0) + [f"still there: {child}" for child in left]


def _say(text: str) -> None:
    print(f"== {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
