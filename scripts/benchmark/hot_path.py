"""Where a request's time goes, and what settings change: ``python -m benchmark.hot_path [WIDTHxHEIGHT] [A=1,B=2 ...]``.

Each word ``A=1,B=2`` names variables that a stack is started with; the first stack has none. ``PYTHONPATH`` names the
``container`` folder of another working copy, such as that of the commit before. All run at once and are measured in
turn, round by round, so that a machine that drifts does not decide. The image is 1024x768 unless given.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmark import bound, models, photos
from benchmark.clients.base import Load, Session
from benchmark.scenarios import common
from benchmark.servers import resources
from benchmark.servers.base import Running
from benchmark.servers.stack import Stack
from lightbox.harness.tables import table

ROUNDS = 6
LOADS = {1: 150, 8: 300}
"""Clients, and how many requests they send together in a round."""
ENGINE = "LIGHTBOX_ENGINE", "auto"


@dataclass
class Measured:
    """A running stack and what was measured of it, a figure for each round."""

    running: Running
    photo: Session
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        """Keep a figure of this round."""
        self.figures.setdefault(name, []).append(value)

    def round(self, bounds: Mapping[int, float]) -> None:
        """Measure one client and several; ``bounds`` are the milliseconds of each load's bound."""
        for clients, requests in LOADS.items():
            cpu, faults = resources.cpu_seconds(self.running.pid), page_faults(self.running)
            sample = self.photo.run(Load(requests, clients))
            assert sample.answers == requests, sample.first_error
            after = resources.cpu_seconds(self.running.pid)
            each = {role: (after[role] - cpu[role]) / requests * 1000 for role in after}
            load = f"{clients} client{'s' if clients > 1 else ''}"
            for role in ("nginx", "gunicorn", "model server"):
                self.note(f"{load}: {role}, CPU ms an image", each[role])
            self.note(f"{load}: all, CPU ms an image", sum(each.values()))
            self.note(f"{load}: all ÷ bound", sum(each.values()) / bounds[clients])
            self.note(f"{load}: p50, ms", statistics.median(sample.latencies) * 1000)
            self.note(f"{load}: images/s", sample.answers / sample.seconds)
            self.note(f"{load}: gunicorn, page faults an image", (page_faults(self.running) - faults) / requests)
        self.note("largest worker, MB", max(resources.memory(self.running.pid).rss["gunicorn"]) / 1e6)


def page_faults(running: Running) -> float:
    """Return how often the sidecar's processes have had to ask the kernel for a page."""
    found = 0
    for role, process in resources.family(running.pid):
        if role == "gunicorn":
            text = Path(f"/proc/{process.pid}/stat").read_text()
            found += int(text[text.rindex(")") :].split()[8])
    return found


@contextmanager
def measured(settings: dict[str, str], image: bytes) -> Iterator[Measured]:
    """Start a stack, warm it up, and stop it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack("Lightbox", models.alone("mobilenet_v2"), (ENGINE, *settings.items()))
        running = stack.start(Path(folder))
        try:
            photo = common.post_image("mobilenet_v2", body=image).open(running.address)
            photo.run(Load(100, max(LOADS)))
            yield Measured(running, photo)
        finally:
            running.stop()


def main(words: list[str]) -> None:
    """Print a table: a line for each figure, a column for each stack, the ratio to the first in brackets."""
    size = re.fullmatch(r"(\d+)x(\d+)", words[0]) if words else None
    image = photos.photo(int(size[1]), int(size[2])) if size else photos.photo()
    variants = ["", *words[1 if size else 0 :]]
    with ExitStack() as stacks:
        all_measured = [stacks.enter_context(measured(parse(words), image)) for words in variants]
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            cores = len(os.sched_getaffinity(0))
            found = {clients: bound.milliseconds(image, min(clients, cores)) for clients in LOADS}
            for one in all_measured:
                for clients, value in found.items():
                    one.note(f"bound of {min(clients, cores)} at once, CPU ms an image", value)
                one.round(found)
        rows = [
            (name, *cells([statistics.median(one.figures[name]) for one in all_measured]))
            for name in all_measured[0].figures
        ]
        print("\n".join(table(("", *(variant or "as it is" for variant in variants)), rows)))


def parse(words: str) -> dict[str, str]:
    """Read ``A=1,B=2``."""
    return dict(word.split("=", 1) for word in words.split(",") if word)


def cells(values: list[float]) -> Iterator[str]:
    """Yield the first value, and the others with their ratio to it."""
    yield f"{values[0]:.2f}"
    for value in values[1:]:
        yield f"{value:.2f} ({value / values[0]:.2f})" if values[0] else f"{value:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
