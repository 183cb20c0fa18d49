"""What a soak serves: the models, the model server, and the kinds of process of the stack, with the memory of each."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmark.models import link
from lightbox.model_zoo import layout
from real_server.program import NAME, program

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
SAMPLES = ("mobilenet_v2", "digits")
ARCHIVE, FOLDER, TORN = "packed.tar.gz", "rows", "torn"
VERSIONS = (1, 2)
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
    """Give the model server of fixed models, and of those that come and go.

    Both are the real one, on PATH, where LIGHTBOX_MODEL_SERVER names it. Else the first is the embedded server, and the
    second is the embedded server in the real one's place, which blocks where that blocks. Raises NoServer.
    """
    is_real = os.environ.get(VARIABLE) == NAME
    with program("binary" if is_real else "embedded", "", folder) as path:
        in_its_place = (VARIABLE, NAME), ("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        yield in_its_place if is_real else ((VARIABLE, "embedded"),), in_its_place


def by_kind(supervisor: int) -> dict[str, list[psutil.Process]]:
    """Return the living processes of a stack by kind, the supervisor among them."""
    root = psutil.Process(supervisor)
    found: dict[str, list[psutil.Process]] = {kind: [] for kind in ("supervisor", *KINDS, OTHER)}
    found["supervisor"].append(root)
    for process in root.children(recursive=True):
        try:
            kind = _kind(" ".join(process.cmdline()), process.ppid() == supervisor)
            if process.status() != psutil.STATUS_ZOMBIE:
                found[kind].append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _kind(command: str, child_of_supervisor: bool) -> str:
    if "nginx: worker process" in command:
        return OTHER if "shutting down" in command else "nginx worker"
    if "gunicorn" in command:
        return "gunicorn master" if child_of_supervisor else "gunicorn worker"
    kinds = {
        "nginx: master": "nginx master",
        "lightbox.features.open_inference.grpc_worker": "gRPC front",
        "lightbox.features.streams.worker": "stream worker",
        "model_server": "model server",
    }
    found = next((kind for words, kind in kinds.items() if words in command), OTHER)
    return found if child_of_supervisor else OTHER


def memory(supervisor: int, proportional: bool = False) -> dict[str, int]:
    """Return the bytes of each kind of process, summed over those of the kind.

    They are resident sizes, or with ``proportional`` the PSS, which counts a shared page once.
    """
    sizes = {}
    for kind, processes in by_kind(supervisor).items():
        sizes[kind] = 0
        for process in processes:
            try:
                sizes[kind] += process.memory_full_info().pss if proportional else process.memory_info().rss
            except psutil.Error:
                continue
    return sizes


def make_models(samples: Path, folder: Path = BUILD) -> tuple[Path, Path]:
    """Return the folder of models that stay, and that of models which come and go, both in ``folder``.

    They are made in a process that ends: this one has clients, and stays small and quick without TensorFlow.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        fixed = apart.submit(_fixed, samples, folder / "soak_models").result()
    return fixed, _changing(samples, fixed / "rows", folder / "soak_changing_models")


def _fixed(samples: Path, root: Path) -> Path:
    """Link to the sample models, and make two that take rows of four numbers.

    ``rows`` answers their sum, ``large`` many numbers.
    """
    for name in SAMPLES:
        link(root / name, (samples / name).absolute())
    for name, numbers in (("rows", 1), ("large", LARGE_ANSWER)):
        if not layout.versions(root / name):
            _save(root / name, numbers)
    return root


def _changing(samples: Path, rows: Path, root: Path) -> Path:
    """Make ``rows`` in two versions, an archive of it, and a model whose variables cannot be read."""
    if not (root / TORN).is_dir():
        shutil.rmtree(root, ignore_errors=True)
        for version in VERSIONS:
            shutil.copytree(rows / "1", root / FOLDER / str(version))
        with tarfile.open(root / ARCHIVE, "w:gz") as archive:
            archive.add(root / FOLDER, ".")
        newest = samples / "digits" / str(max(layout.versions(samples / "digits")))
        shutil.copytree(newest, root / "partial" / "1")
        (root / "partial" / "1" / "variables" / "variables.index").write_bytes(b"garbage" * 20)
        (root / "partial").rename(root / TORN)
    return root


def _save(folder: Path, numbers: int) -> None:
    from lightbox.model_zoo.saved_model import quiet_tensorflow

    quiet_tensorflow()
    import tensorflow as tf

    def answer(x: Any) -> dict[str, Any]:
        total = tf.reduce_sum(x, axis=1)
        return {"sum": total if numbers == 1 else tf.tile(total[:, None], [1, numbers])}

    function = tf.function(answer, input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    tf.saved_model.save(tf.Module(), str(partial), signatures={"serving_default": function.get_concrete_function()})
    folder.mkdir(exist_ok=True)
    partial.rename(folder / "1")
