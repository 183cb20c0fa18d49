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

from soak import weight
from soak.changing import changing_models
from soak.fixed import fixed_models
from soak.report import text
from soak.run import Enough, soak
from soak.stack import BUILD, REPOSITORY, make_models, model_servers


def main(arguments: list[str] | None = None) -> int:
    """Run the soak, print its report, and return 0 when nothing was lost and all came back."""
    options = parse(arguments)
    # Ended from outside, the stack is stopped all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    fixed, changing = make_models(options.models, options.folder)
    if options.weight:
        report, well = weight.run(fixed, options.folder / "weight", options.seconds)
    else:
        report, well = _faults(options, fixed, changing)
    print(report)
    if options.out:
        options.out.write_text(report + "\n")
    return 0 if well else 1


def _faults(options: argparse.Namespace, fixed: Path, changing: Path) -> tuple[str, bool]:
    reports, well = [], True
    with tempfile.TemporaryDirectory() as programs, model_servers(Path(programs)) as (of_fixed, of_changing):
        for traffic, seconds in (
            (fixed_models(fixed, of_fixed), options.seconds),
            (changing_models(changing, of_changing), options.changing_seconds or options.seconds / 3),
        ):
            enough = Enough(seconds, options.kills, options.answers, options.refusals)
            result = soak(traffic, options.folder / "soak", options.kill_pause, enough)
            reports.append(text(result, seconds))
            well &= not (result.ledger.lost or result.failures)
    return "\n\n".join(reports), well


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
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models' folder")
    parser.add_argument("--folder", type=Path, default=BUILD, help="where models and logs are put (build)")
    parser.add_argument("--out", type=Path, help="write the report there too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
