"""Runs a stack with callers, and does one fault after another to it, each recovered from before the next."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import psutil

from benchmark.servers import Running, Stack
from faults.callers import Act, Caller, Watch, wait_for
from faults.client import Client
from faults.fault import Fault, Target
from faults.history import History
from faults.log_reader import LogReader
from faults.stack import Processes, Traffic
from lightbox.base.telemetry import say
from lightbox.tools.harness.http_client import status_of

CALM_SECONDS, RIGHT_RESPONSES = 2.0, 10
"""Recovery: for this many seconds, this many good requests succeeded without a failure."""
BACK_SECONDS = 120.0
"""Time limit of a recovery, generous for a busy machine."""
MEMORY_SECONDS = 5.0
FIRST_SECONDS = 3.0
"""Of load before the first fault."""
CROWD, MOST_CALLERS = 3, 64
"""So many times the callers use the most memory that any of them can, in a run without faults."""
WITH_LOG = ("sh", "-c", 'exec "$@" >"$0" 2>&1')
MODES_COUNT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
"""Root reads every file, whatever its mode; a container's root need not."""


@dataclass(frozen=True)
class Scenario:
    """A stack, its callers and its faults; without faults it serves in peace. ``within`` starts it.

    ``lasting`` is the factor of ``Target``.
    """

    name: str
    traffic: Traffic
    faults: Sequence[Fault] = ()
    within: tuple[str, ...] = ()
    lasting: float = 1.0


class Crew:
    """The callers of a stack."""

    def __init__(self, server: Running, history: History, watch: Watch, think_seconds: float) -> None:
        self._server, self._history, self._watch, self._think = server, history, watch, think_seconds
        self._pool = ThreadPoolExecutor(MOST_CALLERS)

    @contextmanager
    def at_work(self, acts: Sequence[Act]) -> Iterator[threading.Event]:
        """Repeat each act in this block, until the yielded event; raise the first error of the callers' own."""
        stop = threading.Event()
        working = [self._pool.submit(self._drive, *numbered, stop) for numbered in enumerate(acts)]
        try:
            yield stop
        finally:
            stop.set()
            for work in working:
                work.result()

    def _drive(self, number: int, act: Act, stop: threading.Event) -> None:
        random = Random(number)  # noqa: S311 - not a secret
        with closing(Client(self._server.address, keep=number % 2 == 0)) as client, suppress(CancelledError):
            caller = Caller(client, self._history, self._watch, random, stop, self._think)
            try:
                while True:
                    act(caller)
            finally:
                stop.set()  # an error of the callers' own ends the run


def run(scenario: Scenario, history: History, watch: Watch, folder: Path, seconds: float, rounds: int) -> None:
    """Do each fault ``rounds`` times, then go on until ``seconds`` are over; write all to the history."""
    for fault in scenario.faults:
        if fault.forbidden:
            history.note(forbidden=fault.name, why=fault.forbidden)
    possible = [fault for fault in scenario.faults if not fault.forbidden]
    if scenario.faults and not possible:
        return
    with closing(LogReader(folder)) as log:
        traffic, stack = scenario.traffic, scenario.traffic.stack
        if isinstance(stack, Stack):
            stack = replace(stack, within=(*scenario.within, *WITH_LOG, str(log.pipe), *MODES_COUNT))
        say.progress(f"starting {stack.name}: {scenario.name}")
        with closing(stack.start(folder)) as server:
            acts = traffic.acts(server, history)
            crew = Crew(server, history, watch, traffic.think_seconds)
            with crew.at_work(acts) as stop, _noting_memory(traffic, server, history):

                def call(acts: Sequence[Act], seconds: float) -> None:
                    with crew.at_work(acts):
                        stop.wait(seconds)

                random = Random(time.time_ns())  # noqa: S311 - not a secret
                target = Target(server, traffic, log, random, stop, call, scenario.lasting)
                if not possible:
                    # Memory reaches its most before what is measured: by many requests at once, not by chance later.
                    call([*acts] * CROWD, seconds / 10)
                _face_all(possible, target, history, watch, seconds, rounds)
            _stop(server, history)


def _face_all(
    faults: Sequence[Fault], target: Target, history: History, watch: Watch, seconds: float, rounds: int
) -> None:
    end = time.monotonic() + seconds
    target.stop.wait(FIRST_SECONDS)
    while rounds > 0 or time.monotonic() < end:
        if not faults:
            target.stop.wait(max(0.0, end - time.monotonic()))
        # Each kind in turn, so that no process exceeds the supervisor's limit of restarts.
        for fault in target.random.sample(faults, len(faults)):
            if rounds <= 0 and time.monotonic() >= end:
                return
            if not _face(fault, target, history, watch):
                return
        rounds -= 1


def _face(fault: Fault, target: Target, history: History, watch: Watch) -> bool:
    """Do a fault and wait until all is well; return whether it came."""
    server, kinds = target.server, target.traffic.kinds
    before = kinds(server.pid)
    number = history.number()
    history.note(fault=number, name=fault.name, cuts=fault.cuts, may=fault.may, ends=fault.ends)
    say.progress(fault.name)
    began = time.monotonic()
    victim = fault.do(target)
    history.note(over=number)
    over = time.monotonic()

    ended = threading.Event()

    def is_whole() -> bool:
        if server.server.process.poll() is not None:
            ended.set()
            target.stop.set()  # each further request would be another finding
        now = kinds(server.pid)
        is_back = victim is None or not victim.is_running()
        return is_back and all(len(now[kind]) >= len(before[kind]) for kind in before)

    def is_well() -> bool:
        calm = history.now() - watch.failed_at >= CALM_SECONDS and watch.right_since >= RIGHT_RESPONSES
        return calm and status_of(server.address.port, target.traffic.health) == 200

    if not wait_for(is_whole, BACK_SECONDS, ended):
        say.progress(f"processes before: {before}, now: {kinds(server.pid)}")
        return False
    history.note(back=number)
    if not wait_for(is_well, BACK_SECONDS, ended):
        say.progress(f"the last failure began {history.now() - watch.failed_at:.1f} s ago")
        return False
    history.note(well=number, ended=_ended(before))
    say.progress(f"well {time.monotonic() - over:.1f} s after it, which lasted {over - began:.1f} s")
    return True


def _ended(before: Processes) -> list[str]:
    return [kind for kind, processes in before.items() if any(not process.is_running() for process in processes)]


@contextmanager
def _noting_memory(traffic: Traffic, server: Running, history: History) -> Iterator[None]:
    stop = threading.Event()

    def note() -> None:
        while not stop.wait(MEMORY_SECONDS):
            sizes = {}
            for kind, processes in traffic.kinds(server.pid).items():
                for process in processes:
                    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                        sizes[f"{kind} {process.pid}"] = _memory(process.pid)
            history.note(memory=sizes)

    with ThreadPoolExecutor(1) as pool:
        noting = pool.submit(note)
        try:
            yield
        finally:
            stop.set()
    noting.result()


def _memory(process: int) -> int:
    """Return the bytes that are its own, with its part of those that processes share. Mapped files are not among them:
    their part depends on who else maps them. Raises OSError; a kernel before Linux 5.3 has no such numbers."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    anonymous, shared = re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", rollup, re.MULTILINE)
    return 1024 * (int(anonymous) + int(shared))


def _stop(server: Running, history: History) -> None:
    """End the stack, and the history with how it ended."""
    process = server.server.process
    family = psutil.Process(server.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    code: int | str
    try:
        code = process.wait(BACK_SECONDS)
    except subprocess.TimeoutExpired:
        code = "none"
    left = [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    history.note(end=code, left=[str(child) for child in left])
