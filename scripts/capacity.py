"""How many machines it takes: from the CPU time of one image to a million images a minute, with the arithmetic.

capacity.py --cpu-ms 14.1 --image-kb 240 --latency-ms 25; the pages of a benchmark's run calculate with its figures.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.results import Document, variant
from benchmark.scenarios.load import LIGHTBOX, ONE_THREAD
from lightbox.harness.tables import table

HEADER = (
    "images per minute",
    "per second",
    "cores",
    "instances",
    "with a zone to spare",
    "in",
    "in progress, of at most",
)
RATES = (1_000, 10_000, 100_000, 1_000_000)
"""Images a minute."""
THREADS_A_CORE = 8
"""A worker for each core and eight threads in each, by default: so many requests are in progress at once."""


class NoFigures(Exception):
    """A benchmark's results do not hold what is needed; the message says what."""


@dataclass(frozen=True)
class Unit:
    """One image and one instance: CPU ms, bytes and latency of an image, cores, and the utilisation planned for."""

    cpu_ms: float
    image_kb: float
    latency_ms: float
    cores: int = 4
    utilisation: float = 0.6

    @property
    def images_a_second(self) -> float:
        """What an instance takes at the planned utilisation."""
        return self.cores * self.utilisation * 1000 / self.cpu_ms


@dataclass(frozen=True)
class Fleet:
    """What a rate of images needs."""

    rate: int
    cores: float
    instances: int
    with_a_zone_to_spare: int
    megabytes_a_second: float
    in_progress: float
    in_progress_at_most: int


def fleet(unit: Unit, rate: int) -> Fleet:
    """Return what ``rate`` images a minute need: never fewer than two instances, so that one may go."""
    a_second = rate / 60
    cores = a_second * unit.cpu_ms / 1000 / unit.utilisation
    instances = max(2, math.ceil(cores / unit.cores))
    return Fleet(
        rate=rate,
        cores=cores,
        instances=instances,
        with_a_zone_to_spare=math.ceil(instances * 1.5),
        megabytes_a_second=a_second * unit.image_kb / 1000,
        in_progress=a_second * unit.latency_ms / 1000,
        in_progress_at_most=instances * unit.cores * THREADS_A_CORE,
    )


def sheet(unit: Unit) -> str:
    """Return the arithmetic for one instance and the table of fleets, as Markdown."""
    u, c, k = f"{unit.utilisation:g}", f"{unit.cpu_ms / 1000:.4f} s", unit.cores
    a_second = unit.images_a_second
    lines = [
        f"An instance of {k} cores takes {k} * {u} / {c} = {a_second:.0f} images/s, {60 * a_second:,.0f} per minute.",
        "",
        *table(HEADER, (_row(fleet(unit, rate)) for rate in RATES), "r"),
    ]
    return "\n".join(lines)


def _row(needed: Fleet) -> Sequence[str]:
    return [
        f"{needed.rate:,}",
        f"{needed.rate / 60:,.0f}",
        f"{needed.cores:,.1f}",
        f"{needed.instances:,}",
        f"{needed.with_a_zone_to_spare:,}",
        f"{needed.megabytes_a_second:,.0f} MB/s",
        f"{needed.in_progress:,.0f}, {needed.in_progress_at_most:,}",
    ]


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
    return "\n".join(
        [
            "# Capacity",
            "",
            "How many machines are needed if each is like the one of this run. "
            "[Production](../production.md#how-many-machines) has the formulas, and `scripts/capacity.py` calculates "
            "them for your own figures.",
            "",
            f"`{name}` of [load](load.md), mobilenet_v2: {unit.cpu_ms:.1f} ms of CPU per image, sidecar and model "
            f"together; {unit.image_kb:.0f} kB; p50 {unit.latency_ms:.1f} ms with one client.",
            "",
            sheet(unit),
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the sheet and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-ms", type=_positive, required=True, help="CPU time of one image, sidecar and model")
    parser.add_argument("--image-kb", type=_positive, default=240.0)
    parser.add_argument("--latency-ms", type=_positive, default=25.0)
    parser.add_argument("--cores", type=int, default=4, choices=range(1, 257), metavar="CORES", help="of an instance")
    parser.add_argument("--utilisation", type=_positive, default=0.6)
    options = parser.parse_args(arguments)
    print(sheet(Unit(options.cpu_ms, options.image_kb, options.latency_ms, options.cores, options.utilisation)))
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
