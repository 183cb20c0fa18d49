"""Finds the peak, offers twice as much, and judges.

python -m overload [--seconds N] [--models FOLDER] [--folder FOLDER] [--out FILE]
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmark import photos
from benchmark.clients.base import Load, Sample
from benchmark.clients.connection import http_request
from benchmark.clients.http import HttpClient
from benchmark.clients.process import ClientProcess
from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from overload import report
from overload.measure import REST_REQUESTS, overload
from overload.slow import SlowClients, settle
from soak import good, models

ATTRIBUTES = good.ATTRIBUTES
SLOW_EACH = 100
"""More than a stack of two workers has threads."""
SLOW_SETTLE_SECONDS = 3.0


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the report, and return 0 when every bound is kept."""
    options = parse(arguments)
    # Ended from outside, the stack is stopped all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder, _ = models.make_apart(options.models, options.folder)
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2"), *options.set)
    server = Stack("overload", folder, settings).start(options.folder / "overload")
    try:
        client = CLIENTS[options.model]()
        found = overload(server, client, options.seconds, options.peak_seconds)
        slow = beside_slow_clients(server, client)
        busy = server.server.log.count("the model server is busy")
    finally:
        server.stop()
    text, kept = report.text(found, slow, busy, options)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0 if kept else 1


def photo_client() -> HttpClient:
    """A photo for mobilenet_v2: decoding and the model take most of the time."""
    return HttpClient(photos.photo(640, 480), "image/jpeg")


def digit_client() -> HttpClient:
    """Tiny images for a tiny model: what each request costs around them takes most of the time."""
    image = (good.SAMPLES / "digit-7.png").read_bytes()
    return HttpClient(image, "image/png", headers={ATTRIBUTES: "tfs-model-name=digits"})


CLIENTS = {"mobilenet_v2": photo_client, "digits": digit_client}


def beside_slow_clients(server: Running, client: HttpClient) -> Sample:
    """Return a run of one client at rest but for slow ones of each kind."""
    headers = {"Content-Type": "application/json", ATTRIBUTES: "tfs-model-name=large"}
    large = http_request("x", "/invocations", headers, b"[[1,2,3,4]]")
    with SlowClients(server.address.port, SLOW_EACH, large):
        settle(SLOW_SETTLE_SECONDS)
        with ClientProcess(client, server.address) as caller:
            return caller.run(Load(REST_REQUESTS))


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
    parser.add_argument("--model", choices=CLIENTS, default="mobilenet_v2", help="what is asked (mobilenet_v2)")
    parser.add_argument("--models", type=Path, default=models.REPOSITORY / "models", help="the sample models' folder")
    parser.add_argument(
        "--set", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="a setting of the server"
    )
    parser.add_argument("--folder", type=Path, default=models.BUILD, help="where models and logs are put (build)")
    parser.add_argument("--out", type=Path, help="write the report there too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
