"""Runs the benchmark and prints the tables of docs/benchmarks: python -m benchmark [--quick | --full] [SCENARIO ...]"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmark import machine, prepare, tables, targets
from benchmark.declarations import Scale
from benchmark.runner import all_answered, run
from benchmark.scenarios import SCENARIOS


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios that the command line names and return the exit code."""
    options = parse(arguments)
    # SIGTERM also stops the servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    scale = Scale("full" if options.full else "quick")
    prepare.prepare(scale, options.scenarios or SCENARIOS)
    print(f"{machine.measured_with()}\n", flush=True)
    results = []
    with TemporaryDirectory(prefix="lb-bench-") as folder:
        for scenario in [SCENARIOS[name](scale) for name in options.scenarios or SCENARIOS]:
            results.append(run(scenario, Path(folder)))
            print("\n".join(tables.scenario(results[-1])), flush=True)
    print("\n".join(["# targets", "", *targets.table([each for result in results for each in result["experiments"]])]))
    return 0 if all_answered(results) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmark", description=__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="two minutes: shows that it works (default)")
    scale.add_argument("--full", action="store_true", help="fifteen minutes: figures worth quoting")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    options = parser.parse_args(arguments)
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"there is no scenario {name!r}; choose from {', '.join(SCENARIOS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
