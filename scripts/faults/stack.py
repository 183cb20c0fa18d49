"""The stack of a run: its models, model server and kinds of process, and what its callers do."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmark.models import link, save_function
from benchmark.resources import family
from benchmark.servers import Running, Server
from faults.callers import Act
from faults.history import History
from real_server.program import NAME, program

LARGE_OUTPUT = 1 << 18
"""Numbers in a row of the model ``large``: a response of about 3 MB."""
VARIABLE = "LIGHTBOX_MODEL_SERVER"
Settings = tuple[tuple[str, str], ...]
Processes = dict[str, list[psutil.Process]]
MODEL_SERVER = "model server"
SUPERVISOR = "supervisor"

KINDS = (
    MODEL_SERVER,
    "gunicorn worker",
    "gunicorn master",
    "gRPC front",
    "stream worker",
    "nginx master",
    "nginx worker",
)
"""Those that are killed; the supervisor is the one that brings them back."""
FIXED_ONLY = ("gRPC front", "stream worker")
"""Those that multi-model mode does not have."""


@contextmanager
def model_servers() -> Iterator[tuple[Settings, Settings]]:
    """Yield the model server of fixed models and that of changing models.

    Both are the real one on PATH if LIGHTBOX_MODEL_SERVER names it. Otherwise the first is the embedded server, and the
    second is the embedded server emulating the real one, including its blocking. Raises NoServer.
    """
    is_real = os.environ.get(VARIABLE) == NAME
    with TemporaryDirectory() as folder, program("binary" if is_real else "embedded", "", Path(folder)) as path:
        in_its_place = (VARIABLE, NAME), ("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        yield in_its_place if is_real else ((VARIABLE, "embedded"),), in_its_place


def by_kind(supervisor: int) -> Processes:
    """Return the living processes of a stack that must outlive any load, by kind.

    Others come and go, such as an nginx worker that is shutting down.
    """
    processes: Processes = {kind: [] for kind in (SUPERVISOR, *KINDS)}
    for role, process in family(supervisor):
        with suppress(psutil.NoSuchProcess):
            kind = role if process.ppid() == supervisor else "other"
            if process.pid == supervisor:
                kind = SUPERVISOR
            elif role == "nginx":
                kind = re.sub("nginx: (master|worker) process(?! is ).*", r"nginx \1", " ".join(process.cmdline()))
            elif role == "gunicorn":
                kind = "gunicorn master" if kind == role else "gunicorn worker"
            if kind in processes and process.status() != psutil.STATUS_ZOMBIE:
                processes[kind].append(process)
    return processes


@dataclass(frozen=True)
class Traffic:
    """The stack of a run, and its callers.

    ``acts`` returns what each caller of an idle, serving stack does, or raises RuntimeError if its answers are wrong.
    Callers wait at most ``think_seconds`` between two requests: faults matter here, the highest load does not.
    ``kinds`` returns its processes by kind, and ``health`` is the path that answers 200 when all is well.
    """

    stack: Server
    acts: Callable[[Running, History], Sequence[Act]]
    think_seconds: float = 0.3
    kinds: Callable[[int], Processes] = by_kind
    health: str = "/ping"


def make_models(samples: Path, folder: Path) -> Path:
    """Return the folder of fixed models, in ``folder``: the samples, and two that take rows of four numbers.

    ``rows`` returns their sum, ``large`` returns it many times. A separate process makes them, so that this one, which
    runs the clients, does not import TensorFlow.
    """
    root = folder / "faults_models"
    for name in ("mobilenet_v2", "digits"):
        link(root / name, (samples / name).absolute())
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        for name, numbers in (("rows", 1), ("large", LARGE_OUTPUT)):
            apart.submit(save_function, root / name, partial(_sum, numbers), "x", "float32", (4,)).result()
    return root


def _sum(numbers: int, x: Any) -> dict[str, Any]:
    import tensorflow as tf

    return {"sum": tf.tile(tf.reduce_sum(x, axis=1, keepdims=True), [1, numbers])}
