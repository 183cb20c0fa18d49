"""Runs a stack under load and faults, and counts lost requests: python -m soak faults | weight | overload

``faults`` kills processes under good and hostile traffic. ``weight`` sends memory-heavy requests to a 1 GiB container.
``overload`` offers twice the maximum load.
With LIGHTBOX_MODEL_SERVER=tensorflow_model_server, ``faults`` uses the real server.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmark.servers import REPOSITORY
from soak.changing import changing_models
from soak.fixed import fixed_models
from soak.overload import overload
from soak.run import soak
from soak.stack import make_models, model_servers
from soak.weight import heaviest_requests


def main(arguments: list[str] | None = None) -> int:
    """Run it and print the report; return 0 if nothing was lost, all processes recovered and every bound was met."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("what", choices=("faults", "weight", "overload"))
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the load lasts (60)")
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models (models)")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build", help="of models and logs (build)")
    parser.add_argument("--kill-pause", type=float, default=8, help="average seconds between recovery and kill (8)")
    parser.add_argument("--kills", type=int, default=0, help="go on until each kind was killed so often (0)")
    parser.add_argument("--peak-seconds", type=float, default=18, help="how long an overload's peak is measured (18)")
    parser.add_argument("--deadline", type=float, default=30, help="of an overload's request, in seconds (30)")
    options = parser.parse_args(arguments)
    # SIGTERM also stops the stack.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    fixed, folder = make_models(options.models, options.folder), options.folder / options.what
    if options.what == "overload":
        reports = [overload(fixed, folder, options.seconds, options.peak_seconds, options.deadline)]
    elif options.what == "weight":
        reports = [soak(heaviest_requests(fixed, folder), folder, options.seconds)]
    else:
        with model_servers() as (of_fixed, of_changing):
            reports = [
                soak(traffic, folder, seconds, options.kill_pause, options.kills)
                for traffic, seconds in (
                    (fixed_models(fixed, of_fixed), options.seconds),
                    (changing_models(options.folder / "soak_changing_models", of_changing), options.seconds / 3),
                )
            ]
    print("\n\n".join(report for report, _ in reports))
    return 0 if all(is_well for _, is_well in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
