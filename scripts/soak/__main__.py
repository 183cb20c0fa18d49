"""Serves, loads, harms and counts: python -m soak faults | weight | overload [options]

``faults`` kills processes under good and hostile traffic, ``weight`` sends dear requests to a container of 1 GiB,
``overload`` offers twice the load that can be served. ``--help`` behind each tells its options.
LIGHTBOX_MODEL_SERVER=tensorflow_model_server has ``faults`` do so with the real server.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmark.servers import REPOSITORY
from soak.changing import changing_models
from soak.fixed import fixed_models
from soak.overload import overload
from soak.report import text
from soak.run import Enough, soak
from soak.stack import BUILD, make_models, model_servers
from soak.weight import weigh


def main(arguments: list[str] | None = None) -> int:
    """Run it, print the report, and return 0 when nothing was lost, all came back and every bound is kept."""
    options = parse(arguments)
    # Ended from outside, the stack is stopped all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    fixed, changing = make_models(options.models, options.folder)
    if options.what == "overload":
        folder = options.folder / "overload"
        report, well = overload(fixed, folder, options.seconds, options.peak_seconds, dict(options.set))
    elif options.what == "weight":
        result = weigh(fixed, options.folder / "weight", options.seconds)
        report, well = text(result, options.seconds), result.is_well
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
            well &= result.is_well
    return "\n\n".join(reports), well


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    faults, weight, overload = (commands.add_parser(name) for name in ("faults", "weight", "overload"))
    for command, seconds in ((faults, 1800.0), (weight, 60.0), (overload, 60.0)):
        command.add_argument("--seconds", type=float, default=seconds, help=f"how long the load lasts ({seconds:g})")
        command.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models' folder")
        command.add_argument("--folder", type=Path, default=BUILD, help="where models and logs are put (build)")
        command.add_argument("--out", type=Path, help="write the report there too")
    faults.add_argument("--changing-seconds", type=float, help="how long models come and go (a third of --seconds)")
    faults.add_argument("--kill-pause", type=float, default=8, help="average seconds between recovery and kill (8)")
    faults.add_argument("--kills", type=int, default=0, help="go on until each kind was killed so often (0)")
    faults.add_argument("--answers", type=int, default=0, help="go on until so many requests were answered rightly (0)")
    faults.add_argument("--refusals", type=int, default=0, help="go on until so many were refused rightly (0)")
    overload.add_argument("--peak-seconds", type=float, default=6, help="how long each number of clients tries (6)")
    overload.add_argument(
        "--set", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="a setting of the server"
    )
    return parser.parse_args(arguments)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
