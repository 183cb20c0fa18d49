"""How many machines it takes: from the CPU time of one image to a million images a minute, with the arithmetic.

capacity.py --cpu-ms 14.1 --image-kb 240 --latency-ms 25; the pages of a benchmark's run calculate with its figures.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

from benchmark.results import Document, variant
from benchmark.scenarios.load import LIGHTBOX, ONE_THREAD
from lightbox.harness.tables import table

RATES = (1_000, 10_000, 100_000, 1_000_000)
"""Images a minute."""
THREADS_A_CORE = 8
"""Requests in progress: a worker for each core with eight threads each, by default."""
PAGE = """# Capacity

How many machines are needed if each is like the one of this run. [Production](../production.md#how-many-machines) has \
the formulas, and `scripts/capacity.py` calculates them for your own figures.

`{name}` of [load](load.md), mobilenet_v2: {unit.cpu_ms:.1f} ms of CPU per image, sidecar and model together; \
{unit.image_kb:.0f} kB; p50 {unit.latency_ms:.1f} ms with one client.

{sheet}
"""


class NoFigures(Exception):
    """A benchmark's results lack a figure; the message names it."""


@dataclass(frozen=True)
class Unit:
    """One image and one instance: CPU ms, kB and latency of an image, cores, and the utilisation planned for."""

    cpu_ms: float
    image_kb: float
    latency_ms: float
    cores: int = 4
    utilisation: float = 0.6

    @property
    def images_a_second(self) -> float:
        """What an instance takes at the planned utilisation."""
        return self.cores * self.utilisation * 1000 / self.cpu_ms

    def fleet(self, rate: int) -> dict[str, str]:
        """Return what ``rate`` images a minute need, by column: never fewer than two instances, so that one may go."""
        a_second = rate / 60
        cores = a_second * self.cpu_ms / 1000 / self.utilisation
        instances = max(2, math.ceil(cores / self.cores))
        in_progress, at_most = a_second * self.latency_ms / 1000, instances * self.cores * THREADS_A_CORE
        return {
            "images per minute": f"{rate:,}",
            "per second": f"{a_second:,.0f}",
            "cores": f"{cores:,.1f}",
            "instances": f"{instances:,}",
            "with a zone to spare": f"{math.ceil(instances * 1.5):,}",
            "in": f"{a_second * self.image_kb / 1000:,.0f} MB/s",
            "in progress, of at most": f"{in_progress:,.0f}, {at_most:,}",
        }

    def sheet(self) -> str:
        """Return the arithmetic for one instance and the table of fleets, as Markdown."""
        fleets = [self.fleet(rate) for rate in RATES]
        return "\n".join(
            [
                f"An instance of {self.cores} cores takes {self.cores} * {self.utilisation:g} / "
                f"{self.cpu_ms / 1000:.4f} s = {self.images_a_second:.0f} images/s, "
                f"{60 * self.images_a_second:,.0f} per minute.",
                "",
                *table(list(fleets[0]), (list(fleet.values()) for fleet in fleets), "r"),
            ]
        )


def measured(document: Document) -> tuple[str, Unit]:
    """Return which Lightbox a benchmark measured, and one image of mobilenet_v2 on it; raise NoFigures.

    CPU time is that with eight clients, latency that of one: what waiting adds depends on the utilisation.
    """
    for name in (ONE_THREAD, LIGHTBOX):
        busy, alone = (variant(document, "load", f"same_network_{clients}", name) for clients in (8, 1))
        if busy.get("cpu_ms") and alone.get("p50"):
            # As they are shown: who works a row out by hand gets the same.
            cpu_ms = round(sum(busy["cpu_ms"].values()), 1)
            return name, Unit(cpu_ms, round(busy["bytes_sent"] / 1000), round(alone["p50"], 1))
    raise NoFigures(f"the results hold no answers of {LIGHTBOX!r} in the scenario load: run that one")


def page(document: Document) -> str:
    """Return the sheet of a benchmark's run as a page; raise NoFigures."""
    name, unit = measured(document)
    return PAGE.format(name=name, unit=unit, sheet=unit.sheet())


def main(arguments: list[str] | None = None) -> int:
    """Print the sheet and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-ms", type=_positive, required=True, help="CPU time of one image, sidecar and model")
    parser.add_argument("--image-kb", type=_positive, default=240.0)
    parser.add_argument("--latency-ms", type=_positive, default=25.0)
    parser.add_argument("--cores", type=int, default=4, choices=range(1, 257), metavar="CORES", help="of an instance")
    parser.add_argument("--utilisation", type=_positive, default=0.6)
    print(Unit(**vars(parser.parse_args(arguments))).sheet())
    return 0


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())
