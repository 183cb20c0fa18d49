"""Where a request's time goes, and what settings change: ``python -m benchmark.hot_path [WIDTHxHEIGHT] [A=1,B=2 ...]``.

Each word ``A=1,B=2`` names variables that a stack is started with; the first stack has none. All run at once and are
measured in turn, round by round, so that a machine that drifts does not decide. The image is 1024x768 unless given.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmark import photos
from benchmark.clients.base import Load, Session
from benchmark.scenarios import common
from benchmark.servers import resources
from benchmark.servers.base import Running
from lightbox.harness.tables import table

ROUNDS, ONE_BY_ONE, TOGETHER = 6, 30, 80
CLIENTS = 8


@dataclass
class Measured:
    """A running stack and what was measured of it, a figure for each round."""

    running: Running
    floor: Session
    photo: Session
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        """Keep a figure of this round."""
        self.figures.setdefault(name, []).append(value)

    def round(self) -> None:
        """Measure the floor, one client and several."""
        floor = self.floor.run(Load(ONE_BY_ONE))
        alone = self.photo.run(Load(ONE_BY_ONE))
        inside = statistics.median(alone.stages["total"])
        p50 = statistics.median(alone.latencies) * 1000
        self.note("floor, ms", statistics.median(floor.latencies) * 1000)
        self.note("p50, one client, ms", p50)
        self.note("of it outside the sidecar's clock, ms", p50 - inside)
        cpu, faults = resources.cpu_seconds(self.running.pid), page_faults(self.running)
        together = self.photo.run(Load(TOGETHER, CLIENTS))
        after = resources.cpu_seconds(self.running.pid)
        self.note(f"requests/s, {CLIENTS} clients", together.answers / together.seconds)
        for role in ("nginx", "gunicorn", "model server"):
            self.note(f"{role}, CPU ms a request", (after[role] - cpu[role]) / TOGETHER * 1000)
        self.note("gunicorn, page faults a request", (page_faults(self.running) - faults) / TOGETHER)
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
        running = common.lightbox(**settings).start(Path(folder))
        try:
            floor = common.classification_floor(image).open(running.address)
            photo = common.post_image("mobilenet_v2", body=image).open(running.address)
            floor.run(Load(10))
            photo.run(Load(100, CLIENTS))
            yield Measured(running, floor, photo)
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
            for one in all_measured:
                one.round()
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
