"""Runs the benchmark and writes the results: python -m benchmark [--quick | --full] [SCENARIO ...] [--out FOLDER]"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmark import pages, prepare, results
from benchmark.declarations import Scale
from benchmark.runner import Runner
from benchmark.scenarios import SCENARIOS
from benchmark.servers import REPOSITORY


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios that the command line names and return the exit code."""
    options = parse(arguments)
    # SIGTERM also stops the servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    scale = Scale("full" if options.full else "quick")
    prepare.prepare(scale, options.scenarios or SCENARIOS)
    chosen = [SCENARIOS[name](scale) for name in options.scenarios or SCENARIOS]
    folder = results.fresh_folder(options.out)
    document = results.new_document(scale.name, sys.argv[1:] if arguments is None else arguments)
    document["scenarios"] = Runner(folder).run(chosen)
    answered = results.all_answered(document)
    options.out.mkdir(parents=True, exist_ok=True)
    results.write(document, options.out / "results.json")
    pages.write(document, options.out)
    print(f"== written: {options.out}/README.md and the pages and results.json beside it", file=sys.stderr)
    return 0 if answered else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmark", description=__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="two minutes: shows that it works (default)")
    scale.add_argument("--full", action="store_true", help="fifteen minutes: figures worth quoting")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "benchmarks", metavar="FOLDER")
    options = parser.parse_args(arguments)
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"there is no scenario {name!r}; choose from {', '.join(SCENARIOS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
