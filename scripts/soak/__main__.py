"""Runs a stack under load and faults, and counts lost requests: python -m soak faults | weight | overload [options]

``faults`` kills processes under good and hostile traffic. ``weight`` sends memory-heavy requests to a 1 GiB container.
``overload`` offers twice the maximum load. ``--help`` after each prints its options.
With LIGHTBOX_MODEL_SERVER=tensorflow_model_server, ``faults`` uses the real server.
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
from soak.overload import DEADLINE_SECONDS, overload
from soak.run import soak
from soak.stack import BUILD, make_models, model_servers
from soak.weight import weigh


def main(arguments: list[str] | None = None) -> int:
    """Run it and print the report; return 0 if nothing was lost, all processes recovered and every bound was met."""
    options = parse(arguments)
    # SIGTERM also stops the stack.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    fixed = make_models(options.models, options.folder)
    folder = options.folder / options.what
    if options.what == "overload":
        reports = [overload(fixed, folder, options.seconds, options.peak_seconds, options.deadline)]
    elif options.what == "weight":
        reports = [weigh(fixed, folder, options.seconds)]
    else:
        with tempfile.TemporaryDirectory() as programs, model_servers(Path(programs)) as (of_fixed, of_changing):
            reports = [
                soak(traffic, folder, seconds, options.kill_pause, options.kills)
                for traffic, seconds in (
                    (fixed_models(fixed, of_fixed), options.seconds),
                    (changing_models(options.folder / "soak_changing_models", of_changing), options.seconds / 3),
                )
            ]
    print("\n\n".join(report for report, _ in reports))
    return 0 if all(is_well for _, is_well in reports) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    faults, weight, overload = (commands.add_parser(name) for name in ("faults", "weight", "overload"))
    for command, seconds in ((faults, 1800.0), (weight, 60.0), (overload, 60.0)):
        command.add_argument("--seconds", type=float, default=seconds, help=f"how long the load lasts ({seconds:g})")
        command.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models' folder")
        command.add_argument("--folder", type=Path, default=BUILD, help="where models and logs are put (build)")
    faults.add_argument("--kill-pause", type=float, default=8, help="average seconds between recovery and kill (8)")
    faults.add_argument("--kills", type=int, default=0, help="go on until each kind was killed so often (0)")
    overload.add_argument("--peak-seconds", type=float, default=18, help="how long the peak is measured (18)")
    overload.add_argument(
        "--deadline", type=float, default=DEADLINE_SECONDS, help=f"of a request, in seconds ({DEADLINE_SECONDS:g})"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
