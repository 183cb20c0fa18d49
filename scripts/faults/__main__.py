"""Does faults to a stack under load, and checks the histories: python -m faults WHAT

``run`` writes a history for each scenario, and checks it. ``check`` checks histories and adds them up.
``overload`` offers twice and five times the maximum load. ``shares`` measures one model's callers beside others.
``others`` does the faults of processes to LitServe, BentoML and FastAPI, and to Lightbox beside them.
With LIGHTBOX_MODEL_SERVER=tensorflow_model_server, ``run`` uses the real server.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from benchmark.servers import REPOSITORY
from faults import of_processes, of_surroundings, stand_in, weight
from faults.callers import Watch
from faults.changing import changing_models
from faults.checker import Verdict, check
from faults.fixed import fixed_models
from faults.history import History, lines
from faults.others import others, table
from faults.overload import overload
from faults.own_machine import own_machine
from faults.report import report, row
from faults.run import Scenario, run
from faults.shares import shares
from faults.stack import FIXED_ONLY, KINDS, make_models, model_servers
from faults.wall_clock import wall_clock
from real_server.program import EMBEDDED

HISTORIES = REPOSITORY / "build" / "faults"
QUIET = "quiet"
"""The scenario without faults: it runs only if it is named."""


def main(arguments: list[str] | None = None) -> int:
    """Run it and print the report; return 0 if nothing was found, or every bound of the overload was met."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("what", choices=("run", "check", "overload", "shares", "others"))
    parser.add_argument("histories", nargs="*", type=Path, help="to check (those of build/faults)")
    parser.add_argument("--scenarios", default="", help="names, comma-separated (all but quiet)")
    parser.add_argument(
        "--only", default="", help="a regular expression: faults, or others of shares, whose names have it"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault is done, at least (1)")
    parser.add_argument("--seconds", type=float, default=60, help="how long a scenario lasts, at least (60)")
    parser.add_argument("--lasting", type=float, default=1, help="a factor for how long faults last (1)")
    parser.add_argument("--pauses", type=float, default=1, help="a factor for the callers' pauses (1)")
    parser.add_argument("--patience", type=float, default=1, help="a factor for limits of time, on a busy machine (1)")
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models (models)")
    parser.add_argument("--folder", type=Path, default=HISTORIES, help="of models, logs and histories (build/faults)")
    parser.add_argument("--peak-seconds", type=float, default=18, help="how long an overload's peak is measured (18)")
    parser.add_argument("--deadline", type=float, default=30, help="of an overload's request, in seconds (30)")
    options = parser.parse_args(arguments)
    # SIGTERM also stops the stack.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if options.what == "overload":
        fixed = make_models(options.models, options.folder)
        text, is_well = overload(fixed, options.folder, options.seconds, options.peak_seconds, options.deadline)
        print(text)
        return 0 if is_well else 1
    if options.what == "shares":
        for text in shares(options.models, options.folder, options.rounds, options.seconds, options.only):
            print(text, flush=True)
        return 0
    if options.what == "others":
        verdicts: dict[str, Verdict] = {}
        for scenario in others(options.lasting):
            for path in _histories(options, [scenario]):
                verdicts.setdefault(scenario.name, Verdict()).add(check(lines(path)))
        for name, verdict in verdicts.items():
            print(f"{name}\n\n{report(verdict)}\n")
        print(table(verdicts))
        return 0
    histories = options.histories or sorted(options.folder.glob("*.jsonl"))
    if options.what == "run":
        with ExitStack() as stack:
            histories = list(_histories(options, _scenarios(options, stack)))
    verdict = Verdict()
    for path in histories:
        verdict.add(check(lines(path)))
    print(report(verdict))
    if verdict.runs:
        print(row(verdict))
    return 1 if verdict.findings else 0


def _histories(options: argparse.Namespace, scenarios: Iterable[Scenario]) -> Iterator[Path]:
    """Run the chosen scenarios, and yield the history of each."""
    for scenario in scenarios:
        if options.scenarios and scenario.name not in options.scenarios.split(","):
            continue
        chosen = [fault for fault in scenario.faults if re.search(options.only, fault.name)]
        if (scenario.faults and not chosen) or (scenario.name == QUIET and not options.scenarios):
            continue
        traffic = replace(scenario.traffic, think_seconds=options.pauses * scenario.traffic.think_seconds)
        scenario_now = replace(scenario, faults=chosen, traffic=traffic, lasting=options.lasting)
        name = "-".join([scenario.name, *(fault.name for fault in chosen if options.what == "others")])
        name = re.sub(r"\W+", "-", name)
        path = options.folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}.jsonl"
        watch = Watch()
        with closing(History(path, watch.take)) as history:
            history.note(run={"commit": _commit(), "scenario": scenario.name, "patience": options.patience})
            run(scenario_now, history, watch, options.folder / scenario.name, options.seconds, options.rounds)
        yield path


def _scenarios(options: argparse.Namespace, stack: ExitStack) -> Iterator[Scenario]:
    """Yield each scenario; what it needs lives as long as ``stack``."""
    machine = stack.enter_context(own_machine())
    fixed = make_models(options.models, options.folder)
    of_fixed, of_changing = stack.enter_context(model_servers())
    faults = [*of_processes.faults(), *of_surroundings.faults(machine)]
    yield Scenario("fixed models", fixed_models("fixed models", fixed, of_fixed), faults)
    changing = of_processes.faults([kind for kind in KINDS if kind not in FIXED_ONLY])
    changing += [of_processes.in_a_load()] * 3
    yield Scenario("changing models", changing_models(options.folder / "changing_models", of_changing), changing)
    within, forbidden = stack.enter_context(weight.container())
    yield Scenario("container", weight.traffic(fixed, options.folder), weight.faults(forbidden), within)
    within, steps = stack.enter_context(wall_clock())
    yield Scenario("clock", fixed_models("clock", fixed, of_fixed), steps, within)
    file = options.folder / "spoiled"
    settings = stack.enter_context(stand_in.settings(file, EMBEDDED))
    yield Scenario("stand-in", fixed_models("stand-in", fixed, settings), stand_in.faults(file))
    yield Scenario(QUIET, fixed_models(QUIET, fixed, of_fixed))


def _commit() -> str:
    command = ("git", "-C", str(REPOSITORY), "rev-parse", "--short=8", "HEAD")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - our words


if __name__ == "__main__":
    sys.exit(main())
