"""Compares this checkout of Lightbox with another: ``python -m benchmark.against FOLDER [--setting NAME=VALUE]``

Each is started by its own ``serve.sh``, so the other may have any layout. A block starts both, sends images to them in
turn and stops them; every second block starts the other one first. Each round also measures the bound. Prints medians
over the blocks, and ratios.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmark import machine, photos, prepare, tables
from benchmark.clients import Load
from benchmark.declarations import BOUND, Experiment, Scale, Scenario, Variant
from benchmark.runner import all_answered, run
from benchmark.scenarios import common
from benchmark.servers import REPOSITORY

BLOCKS, ROUNDS, WARM_UP = 5, 3, 40
LOADS = (Load(150), Load(300, clients=8))
THIS, OTHER = "this", "other"
Block = Mapping[str, Any]
"""The result of a scenario."""


def block(number: int, checkouts: Mapping[str, Path], caches: Path, own: Mapping[str, str]) -> Scenario:
    """Declare a block. Both use OpenVINO, since engine auto may choose differently, and each its own cache.

    ``own`` are further settings of this checkout.
    """
    variants = []
    for name, checkout in checkouts.items():
        settings = {
            "LIGHTBOX_ENGINE": "openvino",
            "XDG_CACHE_HOME": str(caches / name),
            **(own if name == THIS else {}),
        }
        stack = replace(common.stack(name, settings), checkout=checkout)
        variants.append(Variant(name, stack, common.post_image(common.MODEL)))
    turn = tuple(variants if number % 2 else reversed(variants))
    clients = {load: f"{load.clients} client{'s' if load.clients > 1 else ''}" for load in LOADS}
    experiments = tuple(
        Experiment(title, title, turn, load, ROUNDS, WARM_UP, photos.photo()) for load, title in clients.items()
    )
    return Scenario(f"block {number}", experiments)


def figures(result: Block) -> dict[str, dict[str, float]]:
    """Return the figures of a block by their names; each has a value for ``THIS`` and ``OTHER``."""
    servers, cpu = {server["name"]: server for server in result["servers"]}, dict[str, dict[str, float]]()
    for experiment in result["experiments"]:
        used = {row["name"]: sum(row["cpu_ms"].values()) for row in experiment["variants"]}
        bound = used.pop(BOUND)
        cpu[f"CPU ms an image, {experiment['title']}"] = used
        cpu[f"of these above the bound, {experiment['title']}"] = {name: ms - bound for name, ms in used.items()}
    return {
        **cpu,
        "memory of gunicorn, MB": {name: server["pss"]["gunicorn"] / 1e6 for name, server in servers.items()},
        "memory of all processes, MB": {name: sum(server["pss"].values()) / 1e6 for name, server in servers.items()},
        "start, s": {name: server["ready"] for name, server in servers.items()},
    }


def table(blocks: Sequence[Block]) -> list[str]:
    """Return the Markdown table of the medians, the ratio this ÷ other and its range over the blocks."""
    every, rows = [figures(result) for result in blocks], []
    for name in every[0]:
        ratios = [one[name][THIS] / one[name][OTHER] for one in every]
        medians = [tables.number(median(one[name][row] for one in every)) for row in (THIS, OTHER)]
        rows.append([name, *medians, f"{median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"])
    return tables.table(["", THIS, OTHER, "this ÷ other", "range"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the checkout in a folder beside this one and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmark.against", description=__doc__)
    parser.add_argument("checkout", type=Path, metavar="FOLDER", help="a checkout of Lightbox with its own .venv")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="set a variable for this checkout alone"
    )
    given = parser.parse_args(arguments)
    checkout, own = given.checkout.resolve(), dict(item.split("=", 1) for item in given.setting)
    if not (checkout / "serve.sh").is_file():
        parser.error(f"expected a checkout of Lightbox, but {checkout} has no serve.sh")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the servers are stopped
    print(
        f"{machine.measured_with()}\n\nother: commit {machine.commit(checkout)}; this: {own or 'its defaults'}\n",
        flush=True,
    )
    prepare.prepare(Scale("quick"), ["wire"])
    checkouts, blocks = {THIS: REPOSITORY, OTHER: checkout}, list[Block]()
    with TemporaryDirectory(prefix="lb-bench-") as name:
        folder = Path(name)
        for number in range(BLOCKS):
            blocks.append(run(block(number, checkouts, folder / "caches", own), folder))
            if not all_answered(blocks):
                return 1
    print("\n".join(table(blocks)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
