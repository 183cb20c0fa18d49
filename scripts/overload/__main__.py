"""Finds the peak, offers twice as much, and judges.

python -m overload [--seconds N] [--models FOLDER] [--folder FOLDER] [--out FILE]
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmark import photos
from benchmark.clients.http import HttpClient
from benchmark.servers.stack import Stack
from overload import report
from overload.measure import overload
from soak.stack import BUILD, REPOSITORY, make_models

MODEL = "mobilenet_v2"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the report, and return 0 when every bound is kept."""
    options = parse(arguments)
    # Ended from outside, the stack is stopped all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder, _ = make_models(options.models, options.folder)
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", MODEL), *options.set)
    server = Stack("overload", folder, settings).start(options.folder / "overload")
    try:
        # Decoding the photo and the model take most of the time.
        client = HttpClient(photos.photo(640, 480), "image/jpeg")
        found = overload(server, client, options.seconds, options.peak_seconds)
        busy = server.server.log.count("the model server is busy")
    finally:
        server.stop()
    deadline = float(dict(settings).get("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", report.DEADLINE_SECONDS))
    title = f"{MODEL}, {found.offered:.0f} requests/s offered for {options.seconds:g} s"
    table, kept = report.text(found, busy, deadline)
    text = f"{title}\n\n{table}"
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0 if kept else 1


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long twice the peak is offered (60)")
    parser.add_argument("--peak-seconds", type=float, default=6, help="how long each number of clients tries (6)")
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models", help="the sample models' folder")
    parser.add_argument(
        "--set", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="a setting of the server"
    )
    parser.add_argument("--folder", type=Path, default=BUILD, help="where models and logs are put (build)")
    parser.add_argument("--out", type=Path, help="write the report there too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
