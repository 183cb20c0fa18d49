"""Recognizes what was put in a SavedModel's place, by names and by first bytes, and tells what to do with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_KERAS = "keras.models.load_model(FILE).export('MODEL_DIR/NAME/1') makes one"
_PYTORCH = "torch.onnx.export makes an ONNX model of it, which is served as MODEL_DIR/NAME/1/model.onnx"
_PICKLED = "skl2onnx makes an ONNX model of one of scikit-learn, which is served as MODEL_DIR/NAME/1/model.onnx"
_UNPACK = "unpack it into this folder"
_SAVE_CODE = "build the model in code, restore the checkpoint, and call tf.saved_model.save"
FORMATS = {
    ".keras": ("a Keras model", _KERAS),
    ".h5": ("a Keras model, or weights of one, in HDF5", _KERAS),
    ".hdf5": ("a Keras model, or weights of one, in HDF5", _KERAS),
    ".pt": ("a PyTorch model", _PYTORCH),
    ".pth": ("a PyTorch model", _PYTORCH),
    ".safetensors": ("a file of weights without a graph", _PYTORCH),
    ".pkl": ("a pickled object of Python", _PICKLED),
    ".skops": ("a model of scikit-learn", _PICKLED),
    ".mar": ("an archive of TorchServe", _PYTORCH),
    ".onnx": ("an ONNX model", "MODEL_DIR/NAME/1/model.onnx is served (docs/engines.md)"),
    ".tflite": ("a LiteRT model", "MODEL_DIR/NAME/1/model.tflite is served (docs/engines.md)"),
    ".xml": ("OpenVINO's IR", "MODEL_DIR/NAME/1/model.xml is served with model.bin beside it (docs/engines.md)"),
    ".pb": (
        "a frozen graph",
        "load it with tf.compat.v1.import_graph_def and write it with tf.compat.v1.saved_model.simple_save",
    ),
    ".ckpt": ("a checkpoint", _SAVE_CODE),
    ".index": ("a checkpoint", _SAVE_CODE),
    ".meta": ("a checkpoint", _SAVE_CODE),
    ".engine": ("an engine of TensorRT", "give the model that it was made of"),
    ".plan": ("an engine of TensorRT", "give the model that it was made of"),
    ".zip": ("an archive", _UNPACK),
    ".tar": ("an archive", _UNPACK),
    ".gz": ("an archive", _UNPACK),
    ".tgz": ("an archive", _UNPACK),
}
"""What files of other formats are, and what to do, by their suffix. The first one in a folder is told."""
_OURS, _PARTS = "saved_model.pb", ("assets", "fingerprint.pb", "keras_metadata.pb", "variables")
_TRITON = "model.savedmodel"
MLFLOW = "MLmodel"
"""A file of each folder that MLflow saves a model as."""
MLFLOW_SAVED_MODELS = ("tf2model", "tfmodel", "data/model")
"""Where MLflow has a SavedModel in it: TensorFlow's own modules, those of MLflow 1, models of Keras 2."""
_POINTER = b"version https://git-lfs.github.com/spec/"
POINTER = "is a pointer of git-lfs, not the file itself: run git lfs pull where it was cloned, and copy it again"
_CONTENTS = (
    (b"\x89HDF", "an HDF5 file, as Keras writes it"),
    (b"PK\x03\x04", "a zip file, as Keras and PyTorch write it"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"<", "a page of HTML or XML, as a failed download leaves it"),
    (b"\n", "a graph without variables and signatures, as frozen graphs are"),
)
"""What a file is by its first bytes. A SavedModel begins with the number of its first or second field, 08 or 12."""


def describe_foreign_file(files: Iterable[Path]) -> str:
    """Return what the first file of another format is and what to do with it, as ``; ...``; "" where there is none."""
    other = (file for file in files if file.suffix.lower() in FORMATS and file.name != _OURS)
    found = next(filter(Path.is_file, other), None)
    if found is None:
        return ""
    what, advice = FORMATS[found.suffix.lower()]
    return f"; {found} is {what}: {advice}"


def describe_foreign_folder(folder: Path) -> str:
    """Return what a folder without a SavedModel holds instead, as ``; ...``; "" where nothing of it is known."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ""
    if not entries:
        return "; the folder is empty"
    if parts := [entry.name for entry in entries if entry.name in _PARTS]:
        return f"; it holds {' and '.join(parts)} of one: the copy is not complete"
    if (folder / _TRITON).is_dir():
        return f"; {folder / _TRITON} is as Triton has it: move what it holds one folder up"
    return _describe_mlflow(folder, entries) if (folder / MLFLOW).is_file() else describe_foreign_file(entries)


def _describe_mlflow(folder: Path, entries: Iterable[Path]) -> str:
    """Return what ``describe_foreign_folder`` does, of a folder that MLflow has saved a model as."""
    for inside in MLFLOW_SAVED_MODELS:
        if (folder / inside).is_dir():
            return f"; {folder / inside} is as MLflow has it: move what it holds into {folder}"
    of_flavor = describe_foreign_file([*sorted((folder / "data").glob("*")), *entries])
    return of_flavor or "; it is a model of MLflow, of which those of mlflow.tensorflow and mlflow.onnx can be served"


def is_pointer(start: bytes | memoryview) -> bool:
    """Tell whether a file that begins with these bytes is what git-lfs puts in the place of a large file."""
    return bytes(start[: len(_POINTER)]) == _POINTER


def is_pointer_file(file: Path) -> bool:
    """Tell the same of a file; False where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return is_pointer(opened.read(len(_POINTER)))
    except OSError:
        return False


def content_problem(content: bytes) -> str | None:
    """Return how the sentence on a file that cannot be a SavedModel ends, None where it may be one."""
    if not content:
        return "is empty: it was not copied, or is not yet"
    if is_pointer(content):
        return POINTER
    found = next((what for start, what in _CONTENTS if content.startswith(start)), None)
    return f"is no SavedModel but {found}" if found else None
