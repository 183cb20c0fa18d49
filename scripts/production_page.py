"""Writes a benchmark's figures into docs/production.md, between the comments <!-- NAME --> and <!-- end -->.

production_page.py [--results docs/benchmarks/results.json] [--page docs/production.md]; `make bench` ends with it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import capacity
from capacity import NoFigures
from lightbox.harness.tables import table

REPOSITORY = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- ([a-z]+) -->\n.*?<!-- end -->", re.DOTALL)
SCALE_TARGET = re.compile(r"(--scale-target )\d{4,}")
FOLDED = "Lightbox, one thread, normalizations folded"
PIXELS = "Lightbox, one thread, folded, uint8 pixels"
SMALL, LARGE = "512", "2048"
"""Sides of images, in pixels, whose cost is shown."""
EIGHT, BATCH = "8 clients", 8

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """An image: CPU ms in the sidecar and in the model server, images per second, p50 in ms, its size in kB."""

    sidecar: float
    model: float
    reached: float
    p50: float
    image_kb: float

    @property
    def cpu_ms(self) -> float:
        """Return both shares together."""
        return round(self.sidecar + self.model, 1)


def row(document: Document, scenario: str, experiment: str, name: str, title: str = "") -> Row:
    """Return a variant's figures; ``title`` begins the title of one point of a sweep. Raise NoFigures."""
    for found in (found for found in document["scenarios"] if found["key"] == scenario):
        for point in (point for point in found["experiments"] if point["key"] == experiment):
            for variant in (variant for variant in point["variants"] if variant["name"] == name):
                if point.get("title", "").startswith(title) and variant.get("cpu_ms"):
                    model = round(variant["cpu_ms"]["model server"], 1)
                    sidecar = round(sum(variant["cpu_ms"].values()) - model, 1)
                    return Row(sidecar, model, variant["throughput"], variant["p50"], variant["bytes_sent"] / 1000)
    raise NoFigures(
        f"the results hold no {name!r} in {scenario}, {experiment} {title}".rstrip() + ": run all scenarios"
    )


def measured(document: Document) -> str:
    """Return when and on what the figures were measured."""
    machine = document["machine"]
    day = datetime.fromisoformat(document["measured"])
    server = document["versions"]["model server"]
    kind = "the embedded model server" if server == "embedded" else f"tensorflow_model_server {server}"
    return _wrapped(
        f"Figures marked ‡ are from the benchmark's run of {day.day} {day:%B %Y}, with {kind}, on "
        f"{machine['cores']} cores ({machine['processor']}) that the clients shared. [load](benchmarks/load.md) and "
        "[scale](benchmarks/scale.md) have the rounds, machine and versions. `make bench` repeats the measurements "
        "and updates this page."
    )


def choose(document: Document) -> str:
    """Return the table of what an image costs, and what follows from its rows."""
    cores = document["machine"]["cores"]
    default = row(document, "load", "same_network_8", capacity.DEFAULT)
    one = row(document, "load", "same_network_8", capacity.ONE_THREAD)
    folded = row(document, "load", "same_network_8", FOLDED)
    pixels = row(document, "load", "same_network_8", PIXELS)
    rest = row(document, "scale", "concurrency", "REST inside", EIGHT)
    small, large = (_side(document, side) for side in (SMALL, LARGE))
    header = ("‡", "c_sidecar", "c_model", "c", f"images/s, calculated: {cores} cores ÷ c", "images/s, measured")
    rows = [
        _cells("default settings, 8 clients", default, cores),
        _cells("one thread per operation, 8 clients", one, cores),
        _cells("the same, the model exported as mobilenet_v2_folded", folded, cores),
        _cells("the same, exported with `--input uint8`", pixels, cores),
        _cells("REST inside, 8 clients", rest, cores),
        _cells(f"default settings, 1 client, {SMALL}x{SMALL}, {small.image_kb:.0f} kB", small, cores, alone=True),
        _cells(f"default settings, 1 client, {LARGE}x{LARGE}, {large.image_kb:.0f} kB", large, cores, alone=True),
    ]
    lines = [
        *table(header, rows, "lr"),
        "",
        "The measured rate is lower than the calculated one, because the clients ran on the same cores. Also ‡:",
        "",
        *map(_wrapped, _consequences(document, default, one)),
    ]
    return "\n".join(lines)


def _consequences(document: Document, default: Row, one: Row) -> list[str]:
    grpc, rest = (row(document, "scale", "concurrency", f"{wire} inside", EIGHT) for wire in ("gRPC", "REST"))
    alone = [row(document, "load", "same_network_1", name).p50 for name in (capacity.DEFAULT, capacity.ONE_THREAD)]
    single, batch = (row(document, "scale", "batch", "gRPC inside", f"batch of {n}").model for n in (1, BATCH))
    return [
        f"- one thread per operation: {default.reached:.0f} → {one.reached:.0f} images/s with 8 clients, and "
        f"p50 with one client {alone[0]:.1f} → {alone[1]:.1f} ms;",
        f"- REST inside instead of gRPC: {grpc.cpu_ms:.1f} → {rest.cpu_ms:.1f} ms of CPU, {grpc.reached:.0f} → "
        f"{rest.reached:.0f} images/s (one sweep, 8 clients);",
        f"- a batch of {BATCH} in one request: {single:.1f} → {batch / BATCH:.1f} ms of c_model per image; "
        f"one thread per operation takes {one.model:.1f} ms without a batch;",
        f"- memory: {_memory(document)}.",
    ]


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        120,
        subsequent_indent="  " if text.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _side(document: Document, side: str) -> Row:
    return row(document, "scale", "side", "Lightbox gRPC", f"{side} x")


def _cells(what: str, found: Row, cores: int, *, alone: bool = False) -> Sequence[str]:
    return [
        what,
        f"{found.sidecar:.1f} ms",
        f"{found.model:.1f} ms",
        f"{found.cpu_ms:.1f} ms",
        f"{cores * 1000 / found.cpu_ms:.0f}",
        "–" if alone else f"{found.reached:.0f}",
    ]


def _memory(document: Document) -> str:
    for scenario in (found for found in document["scenarios"] if found["key"] == "load"):
        for server in (found for found in scenario["servers"] if found["name"] == capacity.ONE_THREAD):
            held = {name: size / 1e6 for name, size in server["pss"].items()}
            rest = sum(held.values()) - held["model server"] - held["gunicorn"]
            return (
                f"after {server['answers']:,} requests the embedded model server used {held['model server']:.0f} MB, "
                f"the workers {held['gunicorn']:.0f} MB together, the other processes {rest:.0f} MB"
            )
    raise NoFigures(f"the results hold no memory of {capacity.ONE_THREAD!r}: run the scenario load")


def sheet(document: Document) -> str:
    """Return the capacity sheet with its command and the calculation of one of its rows."""
    name, unit = capacity.measured(document)
    most = 2 * 1000 / unit.cpu_ms
    needed = capacity.fleet(unit, 1_000_000)
    c, latency = f"{unit.cpu_ms / 1000:.4f}", f"{unit.latency_ms / 1000:.4f}"
    ways = [
        f"`{name}` ‡: c = {unit.cpu_ms:.1f} ms, {unit.image_kb:.0f} kB, a latency of {unit.latency_ms:.1f} ms with one",
        f"client. The maximum of one instance with u = 1 and k = 2 is 2 ÷ {c} = {most:.0f} images/s,",
        f"{60 * most:,.0f} per minute. With u = {unit.utilisation:g} and instances of {unit.cores} cores:",
    ]
    given = f"--cpu-ms {unit.cpu_ms:.1f} --image-kb {unit.image_kb:.0f} --latency-ms {unit.latency_ms:.1f}"
    by_hand = [
        "The calculation for a million per minute: r = 1,000,000 ÷ 60 = 16,667 per second;",
        f"cores = 16,667 × {c} ÷ {unit.utilisation:g} = {needed.cores:.1f};",
        f"instances = ⌈{needed.cores:.1f} ÷ {unit.cores}⌉ = {needed.instances},",
        f"and {needed.instances} × 1.5 = {needed.with_a_zone_to_spare} with a zone to spare;",
        f"in = 16,667 × {unit.image_kb:.0f} kB = {needed.megabytes_a_second / 1000:.1f} GB/s;",
        f"in progress = 16,667 × {latency} = {needed.in_progress:.0f}",
        f"of {needed.instances} × {unit.cores} × {capacity.THREADS_A_CORE} = {needed.in_progress_at_most:,} places.",
    ]
    command = f"```bash\n.venv/bin/python scripts/capacity.py {given}\n```"
    return "\n\n".join([_wrapped(" ".join(ways)), command, capacity.sheet(unit), _wrapped(" ".join(by_hand))])


def million(document: Document) -> str:
    """Return what bandwidth and a start mean at a million images a minute."""
    _, unit = capacity.measured(document)
    needed = capacity.fleet(unit, 1_000_000)
    small = _side(document, SMALL)
    model = row(document, "load", "same_network_8", capacity.ONE_THREAD).model
    less = replace(unit, cpu_ms=round(small.sidecar + model, 1), image_kb=small.image_kb)
    fewer = capacity.fleet(less, 1_000_000)
    gigabits = needed.megabytes_a_second * 8 / 1000
    bandwidth = [
        f"- **bandwidth**: {needed.megabytes_a_second / 1000:.1f} GB/s is {gigabits:.0f} Gbit/s in total and",
        f"{gigabits / needed.instances:.2f} Gbit/s for each of {needed.instances} instances. Check the load balancer's",
        f"limit. If clients resize images to {SMALL}x{SMALL}, an image has {small.image_kb:.0f} kB instead of",
        f"{unit.image_kb:.0f} kB, and c is {small.sidecar:.1f} + {model:.1f} = {less.cpu_ms:.1f} ms ‡:",
        f"{fewer.cores:.0f} cores instead of {needed.cores:.0f}, {fewer.instances} instances.",
    ]
    start = [
        f"- **start**: scaling from half to full needs {math.ceil(needed.instances / 2)} new instances. Until they",
        "answer, the others get 1.2 times the load that they can serve (2 × 0.6), and answer the excess with 503.",
        "Scale on a schedule before an expected rise.",
    ]
    return "\n".join(_wrapped(" ".join(words)) for words in (bandwidth, start))


BLOCKS: dict[str, Callable[[Document], str]] = {
    "measured": measured,
    "choose": choose,
    "sheet": sheet,
    "million": million,
}


def rewritten(page: str, document: Document) -> str:
    """Return the page with a run's figures in every block; raise NoFigures, KeyError for a block unknown here."""
    target = capacity.measured(document)[1].images_a_second * 60 // 100 * 100
    page = SCALE_TARGET.sub(rf"\g<1>{target:.0f}", page)
    return BLOCK.sub(lambda found: f"<!-- {found[1]} -->\n{BLOCKS[found[1]](document)}\n<!-- end -->", page)


def main(arguments: list[str] | None = None) -> int:
    """Update the page and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=REPOSITORY / "docs" / "benchmarks" / "results.json")
    parser.add_argument("--page", type=Path, default=REPOSITORY / "docs" / "production.md")
    options = parser.parse_args(arguments)
    try:
        page = rewritten(options.page.read_text(), json.loads(options.results.read_text()))
    except NoFigures as problem:
        print(f"production_page.py: {problem}", file=sys.stderr)
        return 1
    options.page.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
