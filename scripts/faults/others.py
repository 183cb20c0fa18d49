"""The same ledger for other servers beside Lightbox: the same callers, and the faults of processes, which all have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import isfinite

import psutil

from benchmark.clients.http import HttpClient
from benchmark.declarations import Scale
from benchmark.prepare import prepare
from benchmark.resources import family
from benchmark.scenarios import common
from benchmark.servers import Rival, Running
from faults import of_processes
from faults.callers import PING, Act, any_of, ping
from faults.checker import Kind, Verdict
from faults.client import Request
from faults.good import learn
from faults.history import History
from faults.run import Scenario
from faults.stack import SUPERVISOR, Processes, Traffic
from lightbox.tools.harness.tables import padded_table

LISTENS, BEHIND = "a process that listens", "a process behind it"
CALLERS = 4
REPLACED_SECONDS = 60.0
"""In this time a server replaces a frozen process, or never: Lightbox takes 20 s."""
LEFT_OUT = ("SIGSEGV", "SIGABRT")
"""They end a process as SIGKILL does."""


def others(lasting: float) -> Iterator[Scenario]:
    """Yield a scenario for each server and fault: one that a server does not recover from must not spoil the next."""
    prepare(Scale("quick"), ["load"])  # the models of all rows that are wanted here
    lightbox = common.variant(common.AUTO)
    for variant in (lightbox, *map(common.rival, (common.LITSERVE, common.BENTOML, common.FASTAPI))):
        assert isinstance(variant.client, HttpClient), "all are asked over HTTP"
        health = variant.server.health if isinstance(variant.server, Rival) else "/ping"
        traffic = Traffic(variant.server, partial(_acts, variant.client, health), kinds=_kinds, health=health)
        kinds = (LISTENS, BEHIND) if variant.name in (common.AUTO, common.LITSERVE) else (LISTENS,)
        for fault in of_processes.faults(kinds, REPLACED_SECONDS):
            if not fault.name.endswith(LEFT_OUT):
                # What a process ends with it, and which connections it holds, differs by server.
                cuts = of_processes.ALL if fault.name.startswith(LISTENS) else ()
                done = replace(fault, cuts=cuts, ends=(SUPERVISOR, *kinds))
                yield Scenario(variant.name, traffic, [done], lasting=lasting)


def _acts(client: HttpClient, health: str, server: Running, history: History) -> list[Act]:
    headers = {"Content-Type": client.content_type, **client.headers}
    known = learn(server.address, [Request("photo", client.path, headers, client.body)], history)
    return [partial(ping, request=replace(PING, path=health)), *[partial(any_of, known)] * CALLERS]


def _kinds(root: int) -> Processes:
    """Return the living processes of a server by whether they have the socket that callers connect to."""
    processes: Processes = {SUPERVISOR: [], LISTENS: [], BEHIND: []}
    for _, process in family(root):
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE or "resource_tracker" in " ".join(process.cmdline()):
                continue
            listens = any(one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp"))
            processes[SUPERVISOR if process.pid == root else LISTENS if listens else BEHIND].append(process)
    return processes


def table(verdicts: Mapping[str, Verdict]) -> str:
    """Return a row for each server. How it ends on SIGTERM does not count: some exit with its number."""
    rows = []
    for name, verdict in verdicts.items():
        of_faults = [finding for finding in verdict.findings if not finding.text.startswith("SIGTERM")]
        found = [sum(finding.kind is kind for finding in of_faults) for kind in Kind]
        recoveries = [fault.recovery for fault in verdict.faults if isfinite(fault.recovery)]
        numbers = (verdict.counts["requests"], len(verdict.faults), *found)
        rows.append((name, *(f"{number:,}" for number in numbers), f"{max(recoveries, default=0):.1f} s"))
    return "\n".join(padded_table(("server", "requests", "faults", *Kind, "slowest recovery"), rows))
