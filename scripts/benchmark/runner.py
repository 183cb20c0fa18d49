"""Runs scenarios: starts servers, measures variants in alternating rounds, collects figures, stops servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmark import bound, figures, resources
from benchmark.clients import Load, Sample, client_process
from benchmark.declarations import BOUND, Experiment, Scenario
from benchmark.servers import Running, Server
from lightbox.base.telemetry import say


def run(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Return the results of a scenario; a server runs from the first to the last experiment that uses it.

    Raises ServerFailed and the errors of a client's process.
    """
    say.progress(scenario.key)
    last_use = last_uses(scenario.experiments)
    running: dict[Server, Running] = {}
    experiments, described = [], []
    try:
        for experiment in scenario.experiments:
            servers = last_uses([experiment])
            for server in [server for server in servers if server not in running]:
                say.progress(f"starting {server.name}")
                running[server] = server.start(folder / f"server-{list(last_use).index(server)}")
            say.progress(experiment.title)
            experiments.append(measure(experiment, running))
            for server in [server for server in servers if last_use[server] is experiment]:
                pss = resources.memory(running[server].pid)
                described.append({"name": server.name, "ready": running[server].ready, "pss": pss})
                running.pop(server).close()
    finally:
        while running:
            running.popitem()[1].close()
    return {"key": scenario.key, "axes": scenario.axes, "experiments": experiments, "servers": described}


def measure(experiment: Experiment, running: Mapping[Server, Running]) -> dict[str, Any]:
    """Run an experiment on its running servers and return the result."""
    rounds: dict[str, list[Sample]] = {variant.name: [] for variant in experiment.variants}
    cpu: dict[str, dict[str, float]] = {variant.name: {} for variant in experiment.variants}
    bounds: list[float] = []
    cores = min(experiment.load.clients, len(os.sched_getaffinity(0)))
    with ExitStack() as clients:
        callers = {
            variant.name: clients.enter_context(client_process(variant.client, running[variant.server].address))
            for variant in experiment.variants
        }
        warm_up = max(experiment.warm_up, experiment.load.clients)
        for caller in callers.values() if experiment.warm_up else ():
            caller(Load(warm_up, experiment.load.clients))
        for number in range(experiment.rounds):
            # Each round begins with another variant, so that the order of variants changes.
            turn = number % len(experiment.variants)
            for variant in experiment.variants[turn:] + experiment.variants[:turn]:
                pid, used = running[variant.server].pid, cpu[variant.name]
                before = resources.cpu_seconds(pid)
                rounds[variant.name].append(callers[variant.name](experiment.load))
                for role, seconds in resources.cpu_seconds(pid).items():
                    used[role] = used.get(role, 0.0) + seconds - before.get(role, 0.0)
            if experiment.bound:
                bounds.append(bound.milliseconds(experiment.bound, cores))
    found = [
        {"name": variant.name, "server": variant.server.name}
        | figures.summarise(rounds[variant.name], cpu[variant.name])
        for variant in experiment.variants
    ]
    if bounds:
        found.append(_of_the_bound(bounds, cores))
    shape = {name: getattr(experiment.load, name) for name in ("requests", "clients", "rate")}
    return {"key": experiment.key, "title": experiment.title, "x": experiment.x, "load": shape} | {
        "rounds": experiment.rounds,
        "variants": found,
    }


def all_answered(results: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether every variant of every experiment got responses without errors.

    An open loop can exceed the capacity of a slow machine: there a 503 response is correct.
    """
    return all(
        variant["answers"] and variant["errors"] == (variant["refused"] if experiment["load"]["rate"] else 0)
        for found in results
        for experiment in found["experiments"]
        for variant in experiment["variants"]
    )


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
