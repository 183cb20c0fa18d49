"""Measures the CPU time of a request by settings: ``python -m benchmark.hot_path [WIDTHxHEIGHT] [A=1,B=2 ...]``

Measured are the least stack (``least_stack.py``), a stack without variables, and one for each argument ``A=1,B=2``,
which sets variables. ``PYTHONPATH`` can name the ``container`` folder of another working copy, such as the previous
commit. All stacks run at once and are measured in turn with 1 and 8 clients, round by round, so that drift affects all
alike. The image is 1024x768 by default.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from benchmark import models, photos
from benchmark.clients import Load
from benchmark.declarations import Experiment, Scenario, Variant
from benchmark.pages import tables
from benchmark.progress import Progress
from benchmark.runner import Runner
from benchmark.scenarios import common
from benchmark.scenarios.load import LEAST_STACK
from benchmark.servers import LeastStack, Stack

ROUNDS = 6
LOADS = {1: 100, 8: 200}
"""Clients, and how many requests they send together in a round."""
ENGINE = ("LIGHTBOX_ENGINE", "auto")


def main(words: list[str]) -> None:
    """Print the tables of figures, a row for each stack and for the bound."""
    size = re.fullmatch(r"(\d+)x(\d+)", words[0]) if words else None
    image = photos.photo(int(size[1]), int(size[2])) if size else photos.photo()
    client = common.post_image("mobilenet_v2", body=image)
    variants = [Variant(LEAST_STACK, LeastStack(LEAST_STACK), client)]
    for given in ["", *words[1 if size else 0 :]]:
        settings = dict(word.split("=", 1) for word in given.split(",") if word)
        stack = Stack(given or "as it is", models.alone("mobilenet_v2"), (ENGINE, *settings.items()))
        variants.append(Variant(stack.name, stack, client))
    key = "hot_path"
    experiments = tuple(
        Experiment(key, f"{clients} clients", tuple(variants), Load(requests, clients), ROUNDS, bound=image, x=clients)
        for clients, requests in LOADS.items()
    )
    scenario = Scenario(key, len(variants) + 1.0, experiments)
    with tempfile.TemporaryDirectory() as folder:
        (result,) = Runner(Path(folder), Progress([scenario])).run([scenario])
    print("\n".join(tables.variants(result["experiments"], result["servers"], "clients")))


if __name__ == "__main__":
    main(sys.argv[1:])
