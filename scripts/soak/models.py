"""The models that are served: the samples, and one that takes rows of numbers, for CSV."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from model_zoo import layout

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = ("mobilenet_v2", "digits")


def make(samples: Path) -> Path:
    """Return a folder that links to the sample models and holds the model ``rows``; TensorFlow is imported once."""
    root = REPOSITORY / "build" / "soak_models"
    root.mkdir(parents=True, exist_ok=True)
    for name in SAMPLES:
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to((samples / name).absolute(), target_is_directory=True)
    if not layout.versions(root / "rows"):
        _save_rows(root / "rows")
    return root


def _save_rows(folder: Path) -> None:
    from model_zoo.saved_model import quiet_tensorflow

    quiet_tensorflow()
    import tensorflow as tf

    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    function = tf.function(lambda x: {"sum": tf.reduce_sum(x, axis=1)}, input_signature=[spec])
    partial = folder.with_name(".rows")
    shutil.rmtree(partial, ignore_errors=True)
    tf.saved_model.save(tf.Module(), str(partial), signatures={"serving_default": function.get_concrete_function()})
    folder.mkdir(exist_ok=True)
    partial.rename(folder / "1")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
