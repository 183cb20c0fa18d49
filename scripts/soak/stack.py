"""The models, model servers and process kinds of a soak's stack."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmark.models import link, save_function
from benchmark.resources import family
from benchmark.servers import REPOSITORY
from real_server.program import NAME, program

BUILD = REPOSITORY / "build"
SAMPLES = ("mobilenet_v2", "digits")
LARGE_ANSWER = 1 << 18
"""Numbers in a row of the model ``large``: an answer of about 3 MB."""
VARIABLE = "LIGHTBOX_MODEL_SERVER"
Settings = tuple[tuple[str, str], ...]

KINDS = (
    "model server",
    "gunicorn worker",
    "gunicorn master",
    "gRPC front",
    "stream worker",
    "nginx master",
    "nginx worker",
)
"""Those that are killed; the supervisor is the one that brings them back."""
OTHER = "other"
"""nginx's cleaners and the like, which come and go."""


@contextmanager
def model_servers(folder: Path) -> Iterator[tuple[Settings, Settings]]:
    """Yield the model server of fixed models and that of changing models.

    Both are the real one on PATH if LIGHTBOX_MODEL_SERVER names it. Otherwise the first is the embedded server, and the
    second is the embedded server emulating the real one, including its blocking. Raises NoServer.
    """
    is_real = os.environ.get(VARIABLE) == NAME
    with program("binary" if is_real else "embedded", "", folder) as path:
        in_its_place = (VARIABLE, NAME), ("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        yield in_its_place if is_real else ((VARIABLE, "embedded"),), in_its_place


def by_kind(supervisor: int) -> dict[str, list[psutil.Process]]:
    """Return the living processes of a stack by kind, including the supervisor."""
    found: dict[str, list[psutil.Process]] = {kind: [] for kind in ("supervisor", *KINDS, OTHER)}
    for role, process in family(supervisor):
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found[_kind(role, process, supervisor)].append(process)
    return found


def lasting(supervisor: int) -> set[int]:
    """Return the processes of a stack that must outlive any load."""
    return {process.pid for kind, found in by_kind(supervisor).items() if kind != OTHER for process in found}


def _kind(role: str, process: psutil.Process, supervisor: int) -> str:
    is_child, command = process.ppid() == supervisor, " ".join(process.cmdline())
    if role == "gunicorn":
        return "gunicorn master" if is_child else "gunicorn worker"
    if "nginx: worker process" in command and "shutting down" not in command:
        return "nginx worker"
    if role == "nginx":
        role = "nginx master" if "nginx: master" in command else OTHER
    if role == "supervisor":
        return role if process.pid == supervisor else OTHER
    return role if is_child and role in KINDS else OTHER


def make_models(samples: Path, folder: Path = BUILD) -> Path:
    """Return the folder of fixed models, in ``folder``: the samples, and two that take rows of four numbers.

    ``rows`` returns their sum, ``large`` returns it many times. A separate process makes them, so that this one, which
    runs the clients, does not import TensorFlow.
    """
    root = folder / "soak_models"
    for name in SAMPLES:
        link(root / name, (samples / name).absolute())
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        for name, numbers in (("rows", 1), ("large", LARGE_ANSWER)):
            apart.submit(save_function, root / name, partial(_sum, numbers), "x", "float32", (4,)).result()
    return root


def _sum(numbers: int, x: Any) -> dict[str, Any]:
    import tensorflow as tf

    return {"sum": tf.tile(tf.reduce_sum(x, axis=1, keepdims=True), [1, numbers])}
