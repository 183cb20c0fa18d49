"""Runs a stack with callers and a killer for some time; reports in Markdown."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from statistics import median

import psutil

from benchmark.resources import Sizes, noting_memory
from benchmark.servers import Running, Stack
from lightbox.base.telemetry import say
from lightbox.tools.harness.tables import padded_table
from soak.client import Client, Fate, Outcome, Request
from soak.killer import BACK_SECONDS, kill_until
from soak.ledger import Kill, Ledger
from soak.stack import by_kind

STATUS_SECONDS = 10
LEAST = {"200": 101, "4xx": 21}
"""Minimum counts of a run under faults: with fewer requests, good and refused, it proves nothing."""
PING = Request("ping", "/ping", method="GET")


@dataclass
class Caller:
    """One of the callers of a stack, with connections of its own.

    It waits after each request, and raises CancelledError when the load is over.
    """

    client: Client
    ledger: Ledger
    random: Random
    stop: threading.Event
    think_seconds: float

    def send(self, request: Request) -> tuple[Outcome, bool]:
        """Send a request and record it; return the outcome and whether the response is as expected."""
        outcome = self.client.send(request)
        is_right = self.ledger.note(outcome)
        self.think()
        return outcome, is_right

    def change(self, request: Request) -> bool | None:
        """Send a change; return whether it was made, None if it can still complete: the connection ended."""
        outcome, is_right = self.send(request)
        return is_right if outcome.fate is Fate.ANSWERED else None

    def think(self) -> None:
        """Wait between two requests."""
        if self.stop.wait(self.random.uniform(0, self.think_seconds)):
            raise CancelledError


Act = Callable[[Caller], object]
"""The action of a caller, repeated."""


def any_of(known: Sequence[Request], caller: Caller) -> None:
    """Send a request drawn at random from ``known``."""
    caller.send(caller.random.choice(known))


@dataclass(frozen=True)
class Traffic:
    """The stack of a run, the kinds of processes to kill, and the callers of the stack.

    ``acts`` returns what each caller of an idle, serving stack does, or raises RuntimeError if its answers are wrong.
    Callers wait at most ``think_seconds`` between two requests: most runs are about faults, not about the highest load.
    Without kills, no process may end. Memory is sampled every ``look_seconds``; all processes together may take
    ``most_memory`` bytes.
    """

    stack: Stack
    kinds: Sequence[str]
    acts: Callable[[Running], Sequence[Act]]
    think_seconds: float = 0.3
    look_seconds: float = 1.0
    most_memory: float = inf


def soak(traffic: Traffic, folder: Path, seconds: float, pause: float = 0, kills: int = 0) -> tuple[str, bool]:
    """Serve, load, kill with about ``pause`` seconds between, stop; each kind is killed ``kills`` times at least.

    Return the report, and whether no request was lost, all processes recovered and memory stayed within its bound.
    """
    ledger = Ledger()
    say.progress(f"starting serve.sh for {traffic.stack.name}")
    with closing(traffic.stack.start(folder)) as server:
        before, acts = by_kind(server.pid), traffic.acts(server)
        with noting_memory(server.pid, traffic.look_seconds) as memory:
            failures = _load(server, traffic, acts, ledger, seconds, pause, kills)
        if not ledger.note(outcome := Client(server.address).send(PING)):
            failures.append(f"/ping after the load: {outcome.fate}, status {outcome.status}")
        ended = [process for processes in before.values() for process in processes if not process.is_running()]
        if ended and not traffic.kinds:
            failures.append(f"ended under load: {ended}")
        say.progress("SIGTERM")
        failures += _stop_problems(server)
    most = max(sum(sizes.values()) for sizes in memory)
    if most > traffic.most_memory:
        failures.append(f"all processes together took {most / 1e6:.0f} MB, more than {traffic.most_memory / 1e6:.0f}")
    lines = [f"{traffic.stack.name}: {seconds:.0f} s, {len(ledger.kills)} kills", ""]
    lines += padded_table(("", "number"), [(name, f"{number:,}") for name, number in ledger.counts.most_common()])
    lines += ["", *_recovery_table(ledger.kills)] if ledger.kills else []
    lines += ["", *memory_table(memory), ""]
    lines += [*(f"LOST: {line}" for line in ledger.lost[:50]), *(f"FAILED: {line}" for line in failures)]
    return "\n".join(lines).rstrip(), not (ledger.lost or failures)


def _load(
    server: Running, traffic: Traffic, acts: Sequence[Act], ledger: Ledger, seconds: float, pause: float, kills: int
) -> list[str]:
    """Run the callers and the killer until all goals are met; return what failed, the soak's own errors included."""
    stop, stop_kills, failures = threading.Event(), threading.Event(), []

    def drive(number: int, act: Act) -> None:
        random = Random(number)  # noqa: S311 - not a secret
        with closing(Client(server.address, keep=number % 2 == 0)) as client, suppress(CancelledError):
            caller = Caller(client, ledger, random, stop, traffic.think_seconds)
            while True:
                act(caller)

    def all_is_seen() -> bool:
        killed = Counter(kill.kind for kill in list(ledger.kills) if kill.back_after < inf)
        counted = all(ledger.counts[name] >= least for name, least in LEAST.items()) or not traffic.kinds
        return time.monotonic() >= end and counted and all(killed[kind] >= kills for kind in traffic.kinds)

    with ThreadPoolExecutor(len(acts) + 1) as pool:
        end = time.monotonic() + seconds
        killing = pool.submit(kill_until, stop_kills, server, traffic.kinds, ledger, pause)
        working = [killing, *(pool.submit(drive, *numbered) for numbered in enumerate(acts))]
        try:
            for second in count(1):
                done, _ = wait(working, 1.0, FIRST_EXCEPTION)
                if all_is_seen() or any(work.exception() for work in done):
                    break
                if server.server.process.poll() is not None:
                    failures.append("the whole of Lightbox has ended")
                    break
                if second % STATUS_SECONDS == 0:
                    say.progress(", ".join(f"{name} {number}" for name, number in ledger.counts.most_common()))
        finally:
            stop_kills.set()
            wait([killing])  # clients continue until recovery from the last kill
            stop.set()
    return failures + [repr(problem) for work in working if (problem := work.exception())]


def _stop_problems(server: Running) -> list[str]:
    process = server.server.process
    family = psutil.Process(server.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    code = process.wait(BACK_SECONDS)
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [f"exit code {code} after SIGTERM"] * (code != 0) + [f"still there: {child}" for child in left]


def _recovery_table(kills: Sequence[Kill]) -> list[str]:
    """Return the lines of a table of recovery times by kind."""
    rows = []
    for kind in dict.fromkeys(kill.kind for kill in kills):
        times = [kill.back_after for kill in kills if kill.kind == kind]
        rows.append((kind, str(len(times)), f"{median(times):.1f} s", f"{max(times):.1f} s"))
    return padded_table(("killed", "times", "median recovery", "worst"), rows)


def memory_table(noted: Sequence[Sizes]) -> list[str]:
    """Return the lines of a memory table: each role with its own peak, and the total."""
    found = {role: [sizes.get(role, 0) for sizes in noted] for role in noted[0]}
    found["all together"] = [sum(sizes.values()) for sizes in noted]
    text = [
        (role, *(f"{size / 1e6:.0f}" for size in (sizes[0], max(sizes), sizes[-1]))) for role, sizes in found.items()
    ]
    return padded_table(("memory (PSS), MB", "start", "highest", "end"), text)
