"""The models that are served: the samples, and two that take rows of numbers."""

from __future__ import annotations

import multiprocessing
import shutil
import tarfile
from pathlib import Path
from typing import Any

from benchmark.models import link
from lightbox.model_zoo import layout
from soak.changing import ARCHIVE, FOLDER, TORN, VERSIONS

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
SAMPLES = ("mobilenet_v2", "digits")
LARGE_ANSWER = 1 << 18
"""Numbers in a row of the model ``large``: an answer of about 3 MB."""


def make_apart(samples: Path, folder: Path = BUILD) -> tuple[Path, Path]:
    """Make the models in a process that ends: this one has clients, and stays small and quick without TensorFlow."""
    making = multiprocessing.get_context("spawn").Process(target=make, args=(samples, folder))
    making.start()
    making.join()
    if making.exitcode:
        raise RuntimeError("the models could not be made")
    return make(samples, folder)


def make(samples: Path, folder: Path) -> tuple[Path, Path]:
    """Return the folder of models that stay, and that of models which come and go, both in ``folder``."""
    fixed = _fixed(samples, folder / "soak_models")
    return fixed, _changing(samples, fixed / "rows", folder / "soak_changing_models")


def _fixed(samples: Path, root: Path) -> Path:
    """Link to the sample models, and make two that take rows of four numbers.

    ``rows`` answers their sum, ``large`` many numbers.
    """
    for name in SAMPLES:
        link(root / name, (samples / name).absolute())
    if not layout.versions(root / "rows"):
        _save(root / "rows", 1)
    if not layout.versions(root / "large"):
        _save(root / "large", LARGE_ANSWER)
    return root


def _changing(samples: Path, rows: Path, root: Path) -> Path:
    """Make ``rows`` in two versions, an archive of it, and a model whose variables cannot be read."""
    if not (root / TORN).is_dir():
        shutil.rmtree(root, ignore_errors=True)
        for version in VERSIONS:
            shutil.copytree(rows / "1", root / FOLDER / str(version))
        with tarfile.open(root / ARCHIVE, "w:gz") as archive:
            archive.add(root / FOLDER, ".")
        shutil.copytree(_newest(samples / "digits"), root / "partial" / "1")
        (root / "partial" / "1" / "variables" / "variables.index").write_bytes(b"garbage" * 20)
        (root / "partial").rename(root / TORN)
    return root


def _newest(model: Path) -> Path:
    return model / str(max(layout.versions(model)))


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
