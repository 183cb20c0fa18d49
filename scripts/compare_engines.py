"""What a call costs with each engine that opens a model: `compare_engines.py FOLDER...`, each a version's folder.

Each pair of model and engine has a process of its own, with one thread for a call. In every round each process makes
its calls in turn, so that what else a machine does meets all of them. The input is made from the signature: one row.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmark.machine import machine
from lightbox.engines.engine import OpenOptions, engines, named
from lightbox.engines.hardware import Hardware
from lightbox.engines.samples import batches
from lightbox.formats.signature import SIGNATURE
from lightbox.harness.tables import table
from lightbox.tfs_wire.messages import config_pb2
from lightbox.tfs_wire.status import StatusError

Pair = tuple[Path, str]
"""A version's folder and the name of an engine."""

CALLS = 30
"""Of each process in a round."""
HEADER = ("model", "engine", "CPU ms, median", "CPU ms, least", "p50 ms")

_CALL: list[Callable[[], object]] = []
"""In a process of its own: the call that it makes."""


class Round(NamedTuple):
    """Milliseconds of a call: processor time, the mean of a round's calls; and passed time, their median."""

    cpu: float
    p50: float


def open_model(engine: str, folder: str) -> None:
    """Open a model in this process and call it as often as in a round; raise StatusError where it is refused."""
    config = config_pb2.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    options = OpenOptions(Hardware(threads=1, streams=1), ("serve",), config.SerializeToString())
    runner = named(engine).open(folder, options).runner
    signature = runner.signatures[SIGNATURE]
    fetches = [info.name for info in signature.outputs.values()]
    _CALL.append(partial(runner.run, batches(signature, 1)[0], fetches))
    time_calls()


def time_calls() -> Round:
    """Make a round's calls with the model that this process has opened."""
    passed = []
    cpu = time.process_time()
    for _ in range(CALLS):
        start = time.perf_counter()
        _CALL[0]()
        passed.append(time.perf_counter() - start)
    return Round((time.process_time() - cpu) * 1e3 / CALLS, statistics.median(passed) * 1e3)


def compare(folders: Iterable[Path], rounds: int) -> dict[Pair, list[Round]]:
    """Return the rounds of each model's folder with each engine that reads it; tell of those that do not."""
    context = multiprocessing.get_context("spawn")
    pools: dict[Pair, ProcessPoolExecutor] = {}
    with ExitStack() as running:
        for folder, engine in [(folder, engine) for folder in folders for engine in engines() if engine.opens(folder)]:
            pool = running.enter_context(ProcessPoolExecutor(1, context))
            try:
                pool.submit(open_model, engine.name, str(folder)).result()
                pools[folder, engine.name] = pool
            except (StatusError, BrokenProcessPool) as error:
                print(f"{folder}: {engine.name} does not read it: {error}", file=sys.stderr)
        found: dict[Pair, list[Round]] = {pair: [] for pair in pools}
        for _ in range(rounds):
            for pair, pool in pools.items():
                found[pair].append(pool.submit(time_calls).result())
    return found


def row(folder: Path, engine: str, rounds: Sequence[Round]) -> tuple[str, ...]:
    """Return a line of the table."""
    cpu = [one.cpu for one in rounds]
    values = (statistics.median(cpu), min(cpu), statistics.median(one.p50 for one in rounds))
    return (folder.parent.name, engine, *(f"{value:.3g}" for value in values))


def main(arguments: list[str] | None = None) -> int:
    """Print the processor and the table; return 1 where a folder has no engine that reads it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="FOLDER", nargs="+", type=Path, help="a version's folder, as models/m/1")
    parser.add_argument("--rounds", type=int, default=7, help="how often each makes its calls (7)")
    options = parser.parse_args(arguments)
    folders = [folder.resolve() for folder in options.folders]
    found = compare(folders, options.rounds)
    about = machine()
    print(f"{about['processor']}, {about['instructions']}, {about['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print("\n".join(table(HEADER, (row(*pair, rounds) for pair, rounds in found.items()), "llr")))
    left_out = set(folders) - {folder for folder, _ in found}
    for folder in sorted(left_out):
        print(f"compare_engines.py: {folder}: expected a folder with a model that an engine reads", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
