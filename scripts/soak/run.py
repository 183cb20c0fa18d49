"""Runs a stack with callers and a killer for some time; reports in Markdown."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

import psutil

from benchmark.resources import Sizes, noting_memory
from benchmark.servers import Running, Stack
from lightbox.harness.tables import padded_table
from lightbox.telemetry import say
from soak.client import Client, Outcome, Request
from soak.killer import BACK_SECONDS, Killer
from soak.ledger import Kill, Ledger
from soak.stack import by_kind

THINK_SECONDS = 0.3
"""Most time between two requests of one client: the run is about faults, not about the highest load."""
STATUS_SECONDS = 10
LEAST = {"200": 101, "4xx": 21}
"""Minimum counts of a run under faults: with fewer requests, good and refused, it proves nothing."""
PING = Request("ping", "/ping", method="GET")
COUNTS = (
    "requests",
    "left by their own client",
    "not connected",
    "not sent",
    "accepted",
    "200",
    "4xx",
    "503",
    "504",
    "cut by nginx's death",
    "lost",
)
"""What the ledger counts, as the report has it; docs/reliability.md says what each is."""


class Caller:
    """One of the callers of a stack, with connections of its own."""

    def __init__(self, client: Client, ledger: Ledger, number: int) -> None:
        self.client = client
        self.ledger = ledger
        self.number = number
        self.random = random.Random(number)  # noqa: S311 - not a secret

    def send(self, request: Request) -> tuple[Outcome, bool]:
        """Send a request and record it; return the outcome and whether the response is as expected."""
        outcome = self.client.send(request)
        return outcome, self.ledger.note(outcome)


Act = Callable[[Caller], Iterator[None]]
"""What a caller does, forever: it yields after each request."""


def any_of(known: Sequence[Request], caller: Caller) -> Iterator[None]:
    """Send one request after another, drawn at random from ``known``."""
    while True:
        caller.send(caller.random.choice(known))
        yield


@dataclass(frozen=True)
class Traffic:
    """The stack of a run, its callers, and the kinds of processes to kill.

    ``acts`` returns what each caller of an idle, serving stack does, or raises RuntimeError if its answers are wrong.
    Callers wait at most ``think_seconds`` between two requests. The run continues until the ledger counts at least
    ``least``. Without kills, no process may end. Memory is sampled every ``look_seconds``.
    """

    stack: Stack
    kinds: Sequence[str]
    acts: Callable[[Running], Sequence[Act]]
    least: Mapping[str, int] = field(default_factory=dict)
    think_seconds: float = THINK_SECONDS
    look_seconds: float = 1.0


@dataclass
class Result:
    """The result of a run, with memory from before to after the load. ``failures`` lists the problems."""

    traffic: Traffic
    seconds: float
    ledger: Ledger = field(default_factory=Ledger)
    memory: list[Sizes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether no request was lost and all processes recovered."""
        return not (self.ledger.lost or self.failures)


def soak(traffic: Traffic, folder: Path, seconds: float, pause: float = 0.0, kills: int = 0) -> Result:
    """Serve, load, kill with ``pause`` seconds between, stop; each kind is killed ``kills`` times at least."""
    result = Result(traffic, seconds)
    say.progress(f"starting serve.sh for {traffic.stack.name}")
    with closing(traffic.stack.start(folder)) as server:
        before = by_kind(server.pid)
        _load(server, result, pause, kills)
        if not result.ledger.note(outcome := Client(server.address).send(PING)):
            result.failures.append(f"/ping after the load: {outcome.fate}, status {outcome.status}")
        if not traffic.kinds and (now := by_kind(server.pid)) != before:
            result.failures.append(f"processes have ended under load: {before} before, {now} after")
        say.progress("SIGTERM")
        result.failures += _stop_problems(server)
    return result


def _load(server: Running, result: Result, pause: float, kills: int) -> None:
    """Run the callers and the killer until all goals are met; the soak's own errors end the run as failures."""
    traffic, ledger, stop = result.traffic, result.ledger, threading.Event()
    acts = traffic.acts(server)
    killer = Killer(server, traffic.kinds, ledger, pause)

    def drive(number: int, act: Act) -> None:
        with closing(Client(server.address, keep=number % 2 == 0)) as client:
            caller = Caller(client, ledger, number)
            for _ in act(caller):
                if stop.wait(caller.random.uniform(0, traffic.think_seconds)):
                    break

    def all_is_seen() -> bool:
        killed = Counter(kill.kind for kill in list(ledger.kills) if kill.back_after is not None)
        counted = all(ledger.counts[name] >= least for name, least in traffic.least.items())
        return time.monotonic() >= end and counted and all(killed[kind] >= kills for kind in traffic.kinds)

    with (
        noting_memory(server.pid, traffic.look_seconds) as result.memory,
        ThreadPoolExecutor(len(acts) + 1) as pool,
    ):
        end = time.monotonic() + result.seconds
        killing = pool.submit(killer.run)
        working = [killing, *(pool.submit(drive, *numbered) for numbered in enumerate(acts))]
        try:
            for second in count(1):
                done, _ = wait(working, 1.0, FIRST_EXCEPTION)
                if all_is_seen() or any(work.exception() for work in done):
                    break
                if server.server.process.poll() is not None:
                    result.failures.append("the whole of Lightbox has ended")
                    break
                if second % STATUS_SECONDS == 0:
                    say.progress(", ".join(f"{name} {ledger.counts[name]}" for name in COUNTS if ledger.counts[name]))
            killer.stop.set()
            wait([killing])  # clients continue until recovery from the last kill
        finally:
            killer.stop.set()
            stop.set()
    result.failures += [repr(problem) for work in working if (problem := work.exception())]


def _stop_problems(server: Running) -> list[str]:
    process = server.server.process
    family = psutil.Process(server.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    code = process.wait(BACK_SECONDS)
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [f"exit code {code} after SIGTERM"] * (code != 0) + [f"still there: {child}" for child in left]


def text(result: Result) -> str:
    """Return the report of a run."""
    ledger = result.ledger
    kinds = dict.fromkeys([*result.traffic.kinds, *(kill.kind for kill in ledger.kills)])
    recoveries = [(kind, *_recovery([kill for kill in ledger.kills if kill.kind == kind])) for kind in kinds]
    lines = [f"{result.traffic.stack.name}: {result.seconds:.0f} s, {len(ledger.kills)} kills", ""]
    lines += padded_table(("", "number"), [(name, f"{ledger.counts[name]:,}") for name in COUNTS])
    lines += ["", *padded_table(("killed", "times", "median recovery", "worst"), recoveries)] if kinds else []
    lines += ["", *memory_table(result.memory), ""]
    lines += [*(f"LOST: {line}" for line in ledger.lost[:50]), *(f"FAILED: {line}" for line in result.failures)]
    return "\n".join(lines).rstrip()


def _recovery(kills: Sequence[Kill]) -> tuple[str, str, str]:
    known = [kill.back_after for kill in kills if kill.back_after is not None]
    return str(len(kills)), *((f"{median(known):.1f} s", f"{max(known):.1f} s") if known else ("", ""))


def memory_table(noted: Sequence[Sizes]) -> list[str]:
    """Return the lines of a memory table: each role with its own peak, and the total."""
    found = {role: [sizes.get(role, 0) for sizes in noted] for role in noted[0]}
    found["all together"] = [sum(sizes.values()) for sizes in noted]
    text_ = [
        (role, *(f"{size / 1e6:.0f}" for size in (sizes[0], max(sizes), sizes[-1]))) for role, sizes in found.items()
    ]
    return padded_table(("memory (PSS), MB", "start", "highest", "end"), text_)
