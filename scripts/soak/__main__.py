"""Serves, loads, harms and counts; LIGHTBOX_MODEL_SERVER=tensorflow_model_server has it do so with the real server.

python -m soak [--seconds N] [--changing-seconds N] [--kill-pause N] [--kills N] [--answers N] [--refusals N]
               [--weight] [--models FOLDER] [--folder FOLDER] [--out FILE]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from soak import models, weight
from soak.changing import ChangingModels
from soak.fixed import FixedModels
from soak.model_server import model_servers
from soak.report import text, weight_text
from soak.run import Enough, Soak, Traffic


def main(arguments: list[str] | None = None) -> int:
    """Run the soak, print its report, and return 0 when nothing was lost and all came back."""
    options = parse(arguments)
    # Ended from outside, the stack is stopped all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    fixed, changing = models.make_apart(options.models, options.folder)
    if options.weight:
        return _weight(options, fixed)
    enough = Enough(options.kills, options.answers, options.refusals)
    with tempfile.TemporaryDirectory() as programs, model_servers(Path(programs)) as (of_fixed, of_changing):
        runs: list[tuple[Traffic, float]] = [
            (FixedModels(fixed, of_fixed), options.seconds),
            (ChangingModels(changing, of_changing), options.changing_seconds or options.seconds / 3),
        ]
        results = [
            Soak(traffic, options.folder / "soak", seconds, options.kill_pause, enough).run()
            for traffic, seconds in runs
        ]
    report = "\n\n".join(map(text, results))
    print(report)
    if options.out:
        options.out.write_text(report + "\n")
    return 1 if any(result.ledger.lost or result.failures for result in results) else 0


def _weight(options: argparse.Namespace, served: Path) -> int:
    found = weight.run(served, options.folder / "weight", options.seconds)
    report = weight_text(found)
    print(report)
    if options.out:
        options.out.write_text(report + "\n")
    return 1 if found.failures else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800, help="how long fixed models are served (1800)")
    parser.add_argument("--changing-seconds", type=float, help="how long models come and go (a third of that)")
    parser.add_argument("--kill-pause", type=float, default=8, help="average seconds between recovery and kill (8)")
    parser.add_argument("--kills", type=int, default=0, help="go on until each kind was killed so often (0)")
    parser.add_argument("--answers", type=int, default=0, help="go on until so many requests were answered rightly (0)")
    parser.add_argument("--refusals", type=int, default=0, help="go on until so many were refused rightly (0)")
    parser.add_argument("--weight", action="store_true", help="dear requests in a container of 1 GiB, and no kills")
    parser.add_argument("--models", type=Path, default=models.REPOSITORY / "models", help="the sample models' folder")
    parser.add_argument("--folder", type=Path, default=models.BUILD, help="where models and logs are put (build)")
    parser.add_argument("--out", type=Path, help="write the report there too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
