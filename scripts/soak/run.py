"""The run: a stack, clients, hostile clients and a killer for some time."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from soak import good, processes
from soak.client import Client
from soak.exchange import Check, Fate, Outcome, Request
from soak.hostile import BODY_LIMIT_MB, Hostile
from soak.killer import Killer
from soak.ledger import Ledger

GOOD_CLIENTS, HOSTILE_CLIENTS = 6, 4
THINK_SECONDS = 0.3
"""Most time between two requests of one client: the run is about faults, not about the highest load."""
STATUS_SECONDS = 10.0


@dataclass
class Result:
    """What a run gave; memory in bytes by kind of process."""

    seconds: float
    ledger: Ledger
    before: Mapping[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Soak:
    """One run over a folder of models."""

    def __init__(self, models: Path, folder: Path, seconds: float, kill_pause: float) -> None:
        self._seconds = seconds
        self._kill_pause = kill_pause
        self._folder = folder
        self._ledger = Ledger()
        self._enough_kills, self._stop = threading.Event(), threading.Event()
        self._began = time.monotonic()
        settings = (
            ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2"),
            ("LIGHTBOX_MODEL_SERVER", "embedded"),
            ("LIGHTBOX_MAX_BODY_MB", str(BODY_LIMIT_MB)),
        )
        self._stack = Stack("soak", models, settings, front=True)

    def run(self) -> Result:
        """Serve, load, kill, stop; the result's ``failures`` is empty when nothing went wrong."""
        self._say("starting serve.sh")
        server = self._stack.start(self._folder)
        try:
            result = self._under_load(server)
            self._say("SIGTERM")
            result.failures += _stop_problems(server)
        finally:
            server.stop()
        return result

    def _under_load(self, server: Running) -> Result:
        port, front, pid = server.address.port, server.address.front, server.process.pid
        wanted = good.requests()
        checks = good.learn(port, front, wanted)
        result = Result(self._seconds, self._ledger, before=processes.memory(pid))
        killer = Killer(pid, self._ledger, self._kill_pause, self._enough_kills, self._say)
        callers = [
            lambda n=n: self._good(Client(port, front, n % 2 == 0), wanted, checks, n) for n in range(GOOD_CLIENTS)
        ]
        image = next(request.body for request in wanted if request.name.startswith("digit image"))
        callers += [
            lambda n=n: self._hostile(Hostile(port, front, self._ledger, image, n), n) for n in range(HOSTILE_CLIENTS)
        ]
        threads = [threading.Thread(target=self._guarded, args=(work, result)) for work in (*callers, killer.run)]
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

    def _good(self, caller: Client, wanted: list[Request], checks: Mapping[str, Check], number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - not a secret
        while not self._stop.is_set():
            request = chance.choice(wanted)
            outcome = caller.send(request)
            self._note(outcome, checks)
            if outcome.fate is not Fate.ANSWERED:
                self._ledger.again(self._note(caller.send(request), checks))
            self._stop.wait(chance.uniform(0, THINK_SECONDS))
        caller.close()

    def _note(self, outcome: Outcome, checks: Mapping[str, Check]) -> bool:
        return self._ledger.good(outcome, checks[outcome.name](outcome.body) if outcome.status == 200 else "")

    def _hostile(self, client: Hostile, number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - not a secret
        while not self._stop.is_set():
            client.act()
            self._stop.wait(chance.uniform(0, THINK_SECONDS))

    def _watch(self, pid: int, result: Result, killing: threading.Thread) -> None:
        """Note memory and say how it goes, until time is up; clients go on until the last kill is recovered from."""
        end, status = time.monotonic() + self._seconds, time.monotonic() + STATUS_SECONDS
        while time.monotonic() < end and killing.is_alive() and not self._stop.wait(1.0):
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
    family = psutil.Process(server.process.pid).children(recursive=True) if server.process.poll() is None else []
    server.process.terminate()
    code = server.process.wait(60)
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [f"exit code {code} after SIGTERM"] * (code != 0) + [f"still there: {child}" for child in left]
