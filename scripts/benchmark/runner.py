"""Runs scenarios: starts servers, measures variants in alternating rounds, collects figures, stops servers."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from benchmark import bound, figures, resources
from benchmark.clients import Load, Sample, client_process
from benchmark.declarations import BOUND, Experiment, Scenario, Variant
from benchmark.servers import REPOSITORY, Running, Server
from lightbox.base.telemetry import say

T = TypeVar("T")


class Runner:
    """Runs several scenarios in sequence; a server runs from the first to the last experiment that uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._servers: dict[Server, Running] = {}

    def run(self, scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
        """Return a result for each scenario. Raises ServerFailed."""
        last_use = last_uses([experiment for scenario in scenarios for experiment in scenario.experiments])
        try:
            return [self._scenario(scenario, last_use) for scenario in scenarios]
        finally:
            while self._servers:
                self._servers.popitem()[1].close()

    def _scenario(self, scenario: Scenario, last_use: Mapping[Server, Experiment]) -> dict[str, Any]:
        say.progress(scenario.key)
        began = time.perf_counter()
        experiments, described = [], []
        last_here = last_uses(scenario.experiments)
        for experiment in scenario.experiments:
            servers = last_uses([experiment])
            for server in [server for server in servers if server not in self._servers]:
                say.progress(f"starting {server.name}")
                self._servers[server] = server.start(self._folder / f"server-{next(self._numbers)}")
            experiments.append(self.experiment(experiment))
            described += [self._describe(server) for server in servers if last_here[server] is experiment]
            for server in [server for server in servers if last_use[server] is experiment]:
                self._servers.pop(server).close()
        return {
            "key": scenario.key,
            "axes": dict(scenario.axes),
            "experiments": experiments,
            "servers": described,
            "seconds": figures.rounded(time.perf_counter() - began),
        }

    def experiment(self, experiment: Experiment) -> dict[str, Any]:
        """Run an experiment on its running servers and return the result."""
        rounds: dict[str, list[Sample]] = {variant.name: [] for variant in experiment.variants}
        cpu: dict[str, dict[str, float]] = {variant.name: {} for variant in experiment.variants}
        bounds: list[float] = []
        cores = min(experiment.load.clients, len(os.sched_getaffinity(0)))
        with ExitStack() as clients:
            callers = {
                variant.name: clients.enter_context(
                    client_process(variant.client, self._servers[variant.server].address)
                )
                for variant in experiment.variants
            }
            warm_up = max(experiment.warm_up, experiment.load.clients)
            for variant in experiment.variants if experiment.warm_up else ():
                self._run(callers[variant.name], variant, Load(warm_up, experiment.load.clients))
            for number in range(experiment.rounds):
                # Each round begins with another variant, so that the order of variants changes.
                turn = number % len(experiment.variants)
                for variant in experiment.variants[turn:] + experiment.variants[:turn]:
                    pid, used = self._servers[variant.server].pid, cpu[variant.name]
                    before = resources.cpu_seconds(pid)
                    rounds[variant.name].append(self._run(callers[variant.name], variant, experiment.load))
                    for role, seconds in resources.cpu_seconds(pid).items():
                        used[role] = used.get(role, 0.0) + seconds - before.get(role, 0.0)
                if experiment.bound:
                    bounds.append(bound.milliseconds(experiment.bound, cores))
        found = [self._figures(variant, rounds[variant.name], cpu[variant.name]) for variant in experiment.variants]
        if bounds:
            found.append(_of_the_bound(bounds, cores))
        say.progress("\n".join([f"{experiment.title}:", *map(_line, found)]))
        shape = {name: getattr(experiment.load, name) for name in ("requests", "clients", "rate")}
        return {"key": experiment.key, "title": experiment.title, "x": experiment.x, "load": shape} | {
            "rounds": experiment.rounds,
            "variants": found,
        }

    def _figures(self, variant: Variant, rounds: Sequence[Sample], cpu: dict[str, float]) -> dict[str, Any]:
        return {"name": variant.name, "server": variant.server.name, **figures.summarise(rounds, cpu)}

    def _run(self, client: Callable[[Load], Sample], variant: Variant, load: Load) -> Sample:
        try:
            sample = client(load)
        except Exception as error:  # any exception of a client is a failed round; the other rounds go on
            sample = Sample(seconds=1.0)
            sample.fail(f"{type(error).__name__}: {error}")
        return sample

    def _describe(self, server: Server) -> dict[str, Any]:
        running = self._servers[server]
        return {
            "name": server.name,
            "command": running.command,
            # The path of the repository does not belong in the results.
            "settings": {name: value.replace(f"{REPOSITORY}/", "") for name, value in running.settings.items()},
            "started": {"ready": figures.rounded(running.ready)},
            "pss": resources.memory(running.pid),
        }


def _line(found: Mapping[str, Any]) -> str:
    """Return a variant's figures for who waits."""
    figure = "no answer"
    if "p50" in found:
        cost = sum(found["cpu_ms"].values())
        figure = f"p50 {found['p50']:8.1f} ms, {found['throughput']:7.1f} requests/s, CPU {cost:6.1f} ms"
    failed = f"; {found['errors']} failed: {found['first_error'][:120]}" if found["errors"] else ""
    return f"      {found['name']:44} {figure}{failed}"


def last_uses(experiments: Sequence[Experiment]) -> dict[Server, Experiment]:
    """Return the servers in order of first use, each with the last experiment that uses it."""
    return {variant.server: experiment for experiment in experiments for variant in experiment.variants}


def _of_the_bound(milliseconds: Sequence[float], processes: int) -> dict[str, Any]:
    """Return the bound's figures for this many concurrent processes, each alone on a core."""
    samples = [
        Sample([each / 1000], seconds=each / 1000 * bound.IMAGES / processes, responses=bound.IMAGES)
        for each in milliseconds
    ]
    cpu = {"bound": sum(milliseconds) / 1000 * bound.IMAGES}
    found = figures.summarise(samples, cpu)
    return {"name": BOUND, "server": ""} | {name: found[name] for name in found if "bytes" not in name}
