"""Runs scenarios: starts servers, measures variants in alternating rounds, collects figures, stops servers."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from benchmark import bound, figures, resources
from benchmark.clients import Load, Sample, client_process
from benchmark.declarations import BOUND, Experiment, Scenario, Variant
from benchmark.machine import StolenTime
from benchmark.progress import Progress
from benchmark.servers import REPOSITORY, Running, Server
from lightbox.tools.harness.server_process import ServerFailed

T = TypeVar("T")


class Runner:
    """Runs several scenarios in sequence; a server runs from the first to the last experiment that uses it.

    ``at_once`` servers start at the same time. More than one shortens the total, but the startup time of each
    must not be quoted.
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
        last_use = last_uses([experiment for scenario in scenarios for experiment in scenario.experiments])
        try:
            return [self._scenario(scenario, last_use) for scenario in scenarios]
        finally:
            self._each(Running.close, list(self._servers.values()))
            self._servers.clear()

    def _scenario(self, scenario: Scenario, last_use: Mapping[Server, Experiment]) -> dict[str, Any]:
        self._progress.scenario(scenario)
        began, stolen = time.perf_counter(), StolenTime()
        experiments, described = [], []
        last_here = last_uses(scenario.experiments)
        for experiment in scenario.experiments:
            servers = last_uses([experiment])
            self._each(self._start, list(servers))
            experiments.append(self.experiment(experiment))
            described += [self._describe(server) for server in servers if last_here[server] is experiment]
            over = [server for server in servers if last_use[server] is experiment and server in self._servers]
            self._each(Running.close, [self._servers.pop(server) for server in over])
        return {
            "key": scenario.key,
            "axes": dict(scenario.axes),
            "experiments": experiments,
            "servers": described,
            "seconds": figures.rounded(time.perf_counter() - began),
            "stolen": round(stolen.share(), 3),
        }

    def _each(self, do: Callable[[T], None], items: Sequence[T]) -> None:
        """Apply a function to each item, ``at_once`` at a time."""
        with ThreadPoolExecutor(self._at_once) as threads:
            list(threads.map(do, items))

    def _start(self, server: Server) -> None:
        if server in self._servers or server in self._failed:
            return
        self._progress.say(f"  starting {server.name}")
        try:
            self._servers[server] = server.start(self._folder / f"server-{next(self._numbers)}")
        except ServerFailed as error:
            self._failed[server] = str(error)
            self._progress.say(f"  {server.name} did not start: {error}")
        self._answers.setdefault(server, 0)

    def experiment(self, experiment: Experiment) -> dict[str, Any]:
        """Run an experiment on its running servers and return the result."""
        rounds: dict[str, list[Sample]] = {variant.name: [] for variant in experiment.variants}
        cpu: dict[str, dict[str, float]] = {variant.name: {} for variant in experiment.variants}
        bounds: list[float] = []
        variants = [variant for variant in experiment.variants if variant.server in self._servers]
        cores = min(experiment.load.clients, len(os.sched_getaffinity(0)))
        with ExitStack() as clients:
            callers = {
                variant.name: clients.enter_context(
                    client_process(variant.client, self._servers[variant.server].address)
                )
                for variant in variants
            }
            warm_up = max(experiment.warm_up, experiment.load.clients)
            for variant in variants if experiment.warm_up else ():
                self._run(callers[variant.name], variant, Load(warm_up, experiment.load.clients))
            for number in range(experiment.rounds):
                # Each round begins with another variant, so that the order of variants changes.
                turn = number % max(1, len(variants))
                for variant in variants[turn:] + variants[:turn]:
                    pid, used = self._servers[variant.server].pid, cpu[variant.name]
                    before = resources.cpu_seconds(pid)
                    rounds[variant.name].append(self._run(callers[variant.name], variant, experiment.load))
                    for role, seconds in resources.cpu_seconds(pid).items():
                        used[role] = used.get(role, 0.0) + seconds - before.get(role, 0.0)
                if experiment.bound:
                    bounds.append(bound.milliseconds(experiment.bound, cores))
                self._progress.round(len(experiment.variants))
        found = [self._figures(variant, rounds[variant.name], cpu[variant.name]) for variant in experiment.variants]
        if bounds:
            found.append(_of_the_bound(bounds, cores))
        self._progress.experiment(experiment.title, found)
        shape = {name: getattr(experiment.load, name) for name in ("requests", "clients", "rate", "waves")}
        return {"key": experiment.key, "title": experiment.title, "x": experiment.x, "load": shape} | {
            "rounds": experiment.rounds,
            "variants": found,
        }

    def _figures(self, variant: Variant, rounds: Sequence[Sample], cpu: dict[str, float]) -> dict[str, Any]:
        found = {"name": variant.name, "server": variant.server.name, **figures.summarise(rounds, cpu)}
        if variant.server in self._failed:
            found["first_error"] = f"the server did not start: {self._failed[variant.server]}"[:300]
        return found

    def _run(self, client: Callable[[Load], Sample], variant: Variant, load: Load) -> Sample:
        try:
            sample = client(load)
        except Exception as error:  # any exception of a client is a failed round; the other rounds go on
            sample = Sample(seconds=1.0)
            sample.fail(f"{type(error).__name__}: {error}")
        self._answers[variant.server] += sample.answers
        return sample

    def _describe(self, server: Server) -> dict[str, Any]:
        running = self._servers.get(server)
        if running is None:
            return {"name": server.name, "failed": self._failed.get(server, "")}
        return {
            "name": server.name,
            "command": running.command,
            # The path of the repository does not belong in the results.
            "settings": {name: value.replace(f"{REPOSITORY}/", "") for name, value in running.settings.items()},
            "started": {"ready": figures.rounded(running.ready)},
            "pss": resources.memory(running.pid),
            "answers": self._answers[server],
        }


def last_uses(experiments: Sequence[Experiment]) -> dict[Server, Experiment]:
    """Return the servers in order of first use, each with the last experiment that uses it."""
    return {variant.server: experiment for experiment in experiments for variant in experiment.variants}


def _of_the_bound(milliseconds: Sequence[float], processes: int) -> dict[str, Any]:
    """Return the bound's figures for this many concurrent processes, each alone on a core."""
    samples = [
        Sample([each / 1000], seconds=each / 1000 * bound.ANSWERS / processes, answers=bound.ANSWERS)
        for each in milliseconds
    ]
    cpu = {"bound": sum(milliseconds) / 1000 * bound.ANSWERS}
    found = figures.summarise(samples, cpu)
    return {"name": BOUND, "server": ""} | {name: found[name] for name in found if "bytes" not in name}
