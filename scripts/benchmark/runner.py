"""Runs scenarios: servers up, rounds in turn, figures out, servers down."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from benchmark import figures
from benchmark.clients.base import Load, Sample
from benchmark.clients.process import ClientFailed, ClientProcess
from benchmark.declarations import Experiment, Scenario, Variant
from benchmark.machine import StolenTime
from benchmark.progress import Progress
from benchmark.servers import hops, resources
from benchmark.servers.base import REPOSITORY, Running, Server
from lightbox.harness.server import ServerFailed

LEAST_BYTES = 1000
COUNTED_AT_ONCE = 3
"""Servers whose bytes are counted together: bytes do not depend on what else runs."""

T = TypeVar("T")


class Runner:
    """Runs several scenarios one after another; servers that later ones need stay up.

    ``at_once`` servers start at the same time: with more than one they are up sooner, and the time that each of them
    takes is no figure to quote.
    """

    def __init__(self, folder: Path, progress: Progress, at_once: int = 1) -> None:
        self._folder = folder
        self._progress = progress
        self._at_once = at_once
        self._numbers = itertools.count()
        self._servers: dict[Server, Running] = {}
        self._answers: dict[Server, int] = {}
        self._failed: dict[Server, str] = {}

    def run(self, scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
        """Return a result for each scenario."""
        results: list[dict[str, Any]] = []
        last_use = {server: scenario for scenario in scenarios for server in servers_of(scenario)}
        try:
            for scenario in scenarios:
                self._progress.scenario(scenario.title)
                results.append(self._scenario(scenario))
                over = [server for server in self._servers if last_use[server] is scenario]
                self._each(Running.stop, [self._servers.pop(server) for server in over])
        finally:
            self._each(Running.stop, list(self._servers.values()))
            self._servers.clear()
        self._count_hops(scenarios, results)
        return results

    def _scenario(self, scenario: Scenario) -> dict[str, Any]:
        began, stolen = time.perf_counter(), StolenTime()
        self._each(self._start, servers_of(scenario))
        experiments = [self._experiment(experiment) for experiment in scenario.experiments]
        return {
            "key": scenario.key,
            "title": scenario.title,
            "question": scenario.question,
            "notes": list(scenario.notes),
            "axes": dict(scenario.axes),
            "experiments": experiments,
            "servers": [self._describe(server) for server in servers_of(scenario)],
            "seconds": figures.rounded(time.perf_counter() - began),
            "stolen": round(stolen.share(), 3),
        }

    def _each(self, do: Callable[[T], None], items: Sequence[T]) -> None:
        """Do something with each of several, as many at once as may be."""
        with ThreadPoolExecutor(self._at_once) as threads:
            list(threads.map(do, items))

    def _start(self, server: Server) -> None:
        if server in self._servers or server in self._failed:
            return
        self._progress.say(f"starting {server.name}")
        try:
            self._servers[server] = server.start(self._folder / f"server-{next(self._numbers)}")
        except ServerFailed as error:
            self._failed[server] = str(error)
            self._progress.say(f"{server.name} did not start: {error}")
        self._answers.setdefault(server, 0)

    def _experiment(self, experiment: Experiment) -> dict[str, Any]:
        with ExitStack() as open_clients:
            clients = {
                variant.name: open_clients.enter_context(ClientProcess(variant.client, running.address))
                for variant in experiment.variants
                if (running := self._servers.get(variant.server)) is not None
            }
            rounds, cpu = self._rounds(experiment, clients)
        floor = rounds.get(experiment.floor or "", [])
        variants = []
        for variant in experiment.variants:
            samples = rounds.get(variant.name, [])
            result = {"name": variant.name, "server": variant.server.name, **figures.summarise(samples)}
            if variant.server in self._failed:
                result["first_error"] = f"the server did not start: {self._failed[variant.server]}"[:300]
            result["cpu_ms"] = figures.per_request(cpu.get(variant.name, {}), sum(s.answers for s in samples))
            if floor and samples:
                result["ratio"] = figures.paired_ratio(samples, floor)
            variants.append(result)
        self._progress.experiment(experiment.title, variants)
        load = experiment.load
        return {
            "key": experiment.key,
            "title": experiment.title,
            "x": experiment.x,
            "load": {"requests": load.requests, "clients": load.clients, "rate": load.rate, "waves": load.waves},
            "rounds": experiment.rounds,
            "floor": experiment.floor,
            "variants": variants,
        }

    def _rounds(
        self, experiment: Experiment, clients: dict[str, ClientProcess]
    ) -> tuple[dict[str, list[Sample]], dict[str, dict[str, float]]]:
        """Return each variant's samples by round, and the CPU seconds of its server's processes by role."""
        rounds: dict[str, list[Sample]] = {name: [] for name in clients}
        cpu: dict[str, dict[str, float]] = {name: {} for name in clients}
        variants = [variant for variant in experiment.variants if variant.name in clients]
        for variant in variants if experiment.warm_up else ():
            warm_up = Load(max(experiment.warm_up, experiment.load.clients), experiment.load.clients)
            self._run(clients[variant.name], variant, warm_up)
        for number in range(experiment.rounds):
            self._progress.round(experiment.title, number + 1, experiment.rounds)
            # Each round begins with another variant, so that none always follows the same one.
            turn = number % len(variants)
            for variant in variants[turn:] + variants[:turn]:
                pid = self._servers[variant.server].pid
                before = resources.cpu_seconds(pid)
                rounds[variant.name].append(self._run(clients[variant.name], variant, experiment.load))
                for role, seconds in resources.cpu_seconds(pid).items():
                    used = cpu[variant.name]
                    used[role] = used.get(role, 0.0) + seconds - before.get(role, 0.0)
        return rounds, cpu

    def _run(self, client: ClientProcess, variant: Variant, load: Load) -> Sample:
        try:
            sample = client.run(load)
        except ClientFailed as error:
            sample = Sample(seconds=1.0)
            sample.fail(str(error))
        self._answers[variant.server] += sample.answers
        return sample

    def _count_hops(self, scenarios: Sequence[Scenario], results: Sequence[dict[str, Any]]) -> None:
        """Note bytes there and back per request on each inner hop, for variants whose servers have hops.

        Last of all: each server is started once more for it, whatever the number of scenarios that measured it.
        """
        wanted: dict[Server, list[tuple[Variant, int, dict[str, Any]]]] = {}
        for scenario, result in zip(scenarios, results, strict=True):
            for experiment, measured in zip(scenario.experiments, result["experiments"], strict=True):
                for variant, found in zip(experiment.variants, measured["variants"], strict=True):
                    if experiment.counted and variant.server not in self._failed:
                        wanted.setdefault(variant.server, []).append((variant, experiment.counted, found))
        with ThreadPoolExecutor(COUNTED_AT_ONCE) as threads:
            list(threads.map(self._count, wanted, wanted.values()))

    def _count(self, server: Server, variants: Sequence[tuple[Variant, int, dict[str, Any]]]) -> None:
        twin = server.counting()
        if twin is None:
            return
        self._progress.say(f"counting the bytes inside {server.name}")
        try:
            running = twin.start(self._folder / f"counted-{next(self._numbers)}")
        except ServerFailed as error:  # what was measured is worth more than the bytes
            self._progress.say(f"the bytes inside {server.name} are not counted: {error}")
            return
        try:
            for variant, calls, found in variants:
                found["hops"] = _bytes_per_request(running, variant, calls)
        finally:
            running.stop()

    def _describe(self, server: Server) -> dict[str, Any]:
        running = self._servers.get(server)
        if running is None:
            return {"name": server.name, "failed": self._failed.get(server, "")}
        usage = resources.memory(running.pid)
        return {
            "name": server.name,
            "command": running.command,
            # Where the repository lies is nothing of the measurement.
            "settings": {name: value.replace(f"{REPOSITORY}/", "") for name, value in running.settings.items()},
            "started": {mark: figures.rounded(seconds) for mark, seconds in running.started.items()},
            "pss": usage.pss,
            "rss": usage.rss,
            "answers": self._answers[server],
        }


def servers_of(scenario: Scenario) -> list[Server]:
    """Return the servers of a scenario in the order in which they are named."""
    return list(dict.fromkeys(v.server for experiment in scenario.experiments for v in experiment.variants))


def _bytes_per_request(running: Running, variant: Variant, calls: int) -> dict[str, list[int]]:
    assert running.run_dir is not None
    tmp = running.run_dir.parent
    with ClientProcess(variant.client, running.address) as client:
        client.run(Load(1))  # connections and what is asked once: the model's signature
        before = hops.read_hops(tmp)
        answers = client.run(Load(calls)).answers
        after = hops.read_hops(tmp)
    if not answers:
        return {}
    passed = {hop: after[hop] - before[hop] for hop in hops.HOPS}
    each = {hop: [count.there // answers, count.back // answers] for hop, count in passed.items()}
    # The supervisor asks the model server for its state over REST, a few bytes a second.
    return {hop: count for hop, count in each.items() if count[0] > LEAST_BYTES}
