"""MLPerf's LoadGen against an endpoint that takes images by HTTP: ``loadgen.py URL IMAGE [IMAGE ...] [options]``

    .venv-bench/bin/python scripts/loadgen.py http://localhost:8080/invocations photos/*.jpg --rate 20 --milliseconds 50

``Server`` sends images at random times at the given rate, and is valid if 99 of 100 answers come in time, decoding
included; ``Offline`` sends all at once. Prints LoadGen's own summary, then one line of JSON: ``valid``, ``rate``
(answered images/s), ``p50`` and ``p99`` (ms), ``images`` and ``failed`` (responses other than 200). The exit
code is 1 unless LoadGen reports VALID and no request failed. With ``--highest`` it looks for the highest valid rate,
below that of Offline, and prints the line of that run. `make loadgen` installs the requirements.
"""

from __future__ import annotations

import argparse
import http.client
import json
import queue
import re
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

import mlperf_loadgen

RESPONSE_SECONDS = 60.0
CONNECTIONS = {"Server": 64, "Offline": 8}
LEAST, STEPS, IMAGES = 0.1, 4, 500
"""``--highest`` looks from this share of the Offline rate on, in a range that is halved so often. A run has so many
images at least."""
Figures = dict[str, float | int | bool]


class Endpoint:
    """Posts images over kept-alive connections, with one thread each."""

    def __init__(self, url: str, headers: dict[str, str], bodies: list[bytes], connections: int) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._path = parts.netloc, parts.path or "/"
        self._headers, self._bodies = headers, bodies
        self._waiting: queue.SimpleQueue[mlperf_loadgen.QuerySample] = queue.SimpleQueue()
        self.images = 0
        self.failures: list[str] = []
        for _ in range(connections):
            threading.Thread(target=self._work, daemon=True).start()

    def send(self, samples: list[mlperf_loadgen.QuerySample]) -> None:
        """Queue LoadGen's queries."""
        for sample in samples:
            self._waiting.put(sample)

    def _work(self) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=RESPONSE_SECONDS)
        while True:
            sample = self._waiting.get()
            try:
                self._post(connection, self._bodies[sample.index])
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                connection.close()
            self.images += 1
            mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0)])

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
        except (
            ConnectionError,
            http.client.BadStatusLine,
        ):  # the server may have closed an idle connection
            connection.close()
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
        text = response.read()
        if response.status != http.client.OK:
            self.failures.append(f"HTTP {response.status}: {text[:300].decode(errors='replace')}")


def run(options: argparse.Namespace) -> Figures:
    """Run one scenario, print LoadGen's summary, and return the figures."""
    headers = {"Content-Type": options.content_type, **dict(header.split(": ", 1) for header in options.header)}
    bodies = [path.read_bytes() for path in options.images]
    endpoint = Endpoint(options.url, headers, bodies, CONNECTIONS[options.scenario])
    settings = mlperf_loadgen.TestSettings()
    settings.scenario = getattr(mlperf_loadgen.TestScenario, options.scenario)
    settings.mode = mlperf_loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = int(options.seconds * 1000)
    settings.min_query_count = 1
    settings.server_target_qps = settings.offline_expected_qps = options.rate
    settings.server_target_latency_ns = int(options.milliseconds * 1e6)
    settings.server_target_latency_percentile = 0.99
    with tempfile.TemporaryDirectory() as folder:
        log = mlperf_loadgen.LogSettings()
        log.enable_trace = False
        log.log_output.outdir = folder
        system = mlperf_loadgen.ConstructSUT(endpoint.send, lambda: None)
        library = mlperf_loadgen.ConstructQSL(len(bodies), len(bodies), lambda indices: None, lambda indices: None)
        mlperf_loadgen.StartTestWithLogSettings(system, library, settings, log)
        mlperf_loadgen.DestroyQSL(library)
        mlperf_loadgen.DestroySUT(system)
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text()
    print(summary)
    if endpoint.failures:
        print(f"{len(endpoint.failures)} answers failed, the first: {endpoint.failures[0]}", file=sys.stderr)
    rate = "Completed samples per second" if options.scenario == "Server" else "Samples per second"
    return {
        "valid": "Result is : VALID" in summary and not endpoint.failures,
        "rate": round(_figure(summary, rate), 2),
        "p50": round(_figure(summary, "50.00 percentile latency (ns)") / 1e6, 1),
        "p99": round(_figure(summary, "99.00 percentile latency (ns)") / 1e6, 1),
        "images": endpoint.images,
        "failed": len(endpoint.failures),
    }


def highest(options: argparse.Namespace) -> Figures:
    """Return the figures of the run with the highest valid rate, of the one in Offline if there is none."""
    options.scenario = "Offline"
    offline = run(options)
    options.scenario, low, high, best = "Server", offline["rate"] * LEAST, offline["rate"], offline | {"valid": False}
    shortest = options.seconds
    for _ in range(STEPS):
        options.rate = (low + high) / 2
        options.seconds = max(shortest, IMAGES / options.rate)
        # An invalid run is repeated once: a pause of the host is not a limit of the server.
        figures = next((found for _ in range(2) if (found := run(options))["valid"]), None)
        if figures:
            low, best = options.rate, figures
        else:
            high = options.rate
    return best


def _figure(summary: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)}\s*: ([\d.]+)", summary, re.MULTILINE)
    if not found:
        raise SystemExit(f"loadgen: LoadGen's summary has no {name!r}")
    return float(found[1])


def main() -> int:
    """Read the command line, run, and return the exit code."""
    parser = argparse.ArgumentParser(prog="loadgen.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="where images are posted")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="files that are sent in random order")
    parser.add_argument("--scenario", choices=sorted(CONNECTIONS), default="Server")
    parser.add_argument(
        "--rate", type=float, default=10, metavar="N", help="images a second; in Offline what is expected (10)"
    )
    parser.add_argument(
        "--milliseconds", type=float, default=100, metavar="N", help="bound of the 99th percentile (100)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="N", help="shortest duration (60; MLPerf wants 600)"
    )
    parser.add_argument("--content-type", default="application/x-image", metavar="TYPE")
    parser.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent with each image; may be repeated"
    )
    parser.add_argument("--highest", action="store_true", help="look for the highest valid rate")
    options = parser.parse_args()
    figures = highest(options) if options.highest else run(options)
    print(json.dumps(figures))
    return 0 if figures["valid"] else 1


if __name__ == "__main__":
    sys.exit(main())
