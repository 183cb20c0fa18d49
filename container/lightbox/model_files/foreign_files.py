"""Recognizes other files in a SavedModel's place, by names and first bytes, with advice for each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightbox.model_runtime.access import is_dir, is_file, open_file
from lightbox.model_runtime.formats import holds_model

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
"""Files of other formats by suffix, with advice. Only the first one in a folder is reported."""
_OURS, _PARTS = "saved_model.pb", ("assets", "fingerprint.pb", "keras_metadata.pb", "variables")
_TRITON = "model.savedmodel"
MLFLOW = "MLmodel"
"""A file that each of MLflow's model folders has."""
MLFLOW_SAVED_MODELS = ("tf2model", "tfmodel", "data/model")
"""MLflow's folders for a SavedModel: TensorFlow's own modules, MLflow 1, Keras 2."""
_POINTER = b"version https://git-lfs.github.com/spec/"
POINTER = "is a pointer of git-lfs, not the file itself: run git lfs pull in the clone, and copy the file again"
_CONTENTS = (
    (b"\x89HDF", "an HDF5 file, as Keras writes it"),
    (b"PK\x03\x04", "a zip file, as Keras and PyTorch write it"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"<", "a page of HTML or XML, as a failed download leaves it"),
    (b"\n", "a graph without variables and signatures, as frozen graphs are"),
)
"""Formats by their first bytes. A SavedModel begins with the number of its first or second field, 08 or 12."""


def describe_foreign_file(files: Iterable[Path]) -> str:
    """Return the format of the first file of another format, with advice, as ``; ...``; "" if there is none."""
    other = (file for file in files if file.suffix.lower() in FORMATS and file.name != _OURS)
    found = next(filter(Path.is_file, other), None)
    if found is None:
        return ""
    what, advice = FORMATS[found.suffix.lower()]
    return f"; {found} is {what}: {advice}"


def describe_foreign_folder(folder: Path) -> str:
    """Return the content of a folder without a SavedModel, as ``; ...``; "" if unknown."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ""
    if not entries:
        return "; the folder is empty"
    if parts := [entry.name for entry in entries if entry.name in _PARTS]:
        return f"; it holds {' and '.join(parts)} of one: the copy is not complete"
    if is_dir(folder / _TRITON):
        return f"; {folder / _TRITON} is as Triton has it: move what it holds one folder up"
    if is_file(folder / MLFLOW):
        return _describe_mlflow(folder, entries)
    return describe_foreign_file(entries) or _describe_nested(folder)


def _describe_nested(folder: Path) -> str:
    below = (found for pattern in ("*", "*/*") for found in sorted(folder.glob(pattern)))
    nested = next((found for found in below if is_dir(found) and holds_model(found)), None)
    return f"; {nested} holds a model, too deep: move what it holds into {folder}" if nested else ""


def _describe_mlflow(folder: Path, entries: Iterable[Path]) -> str:
    """Return the same as ``describe_foreign_folder``, for a model folder of MLflow."""
    for inside in MLFLOW_SAVED_MODELS:
        if is_dir(folder / inside):
            return f"; {folder / inside} is as MLflow has it: move what it holds into {folder}"
    of_flavor = describe_foreign_file([*sorted((folder / "data").glob("*")), *entries])
    return of_flavor or "; it is a model of MLflow, of which those of mlflow.tensorflow and mlflow.onnx can be served"


def is_pointer(start: bytes | memoryview) -> bool:
    """Return whether a file with these first bytes is git-lfs's placeholder of a large file."""
    return bytes(start[: len(_POINTER)]) == _POINTER


def is_pointer_file(file: Path) -> bool:
    """Return the same for a file; False if it cannot be read."""
    try:
        with open_file(file) as opened:
            return is_pointer(opened.read(len(_POINTER)))
    except OSError:
        return False


def content_problem(content: bytes) -> str | None:
    """Return the end of the sentence about a file that cannot be a SavedModel, None if it may be one."""
    if not content:
        return "is empty: the copy is missing or not complete"
    if is_pointer(content):
        return POINTER
    found = next((what for start, what in _CONTENTS if content.startswith(start)), None)
    return f"is not a SavedModel but {found}" if found else None
