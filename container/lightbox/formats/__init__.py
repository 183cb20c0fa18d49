"""Formats of models other than SavedModel: a module for each reads a file's signature from the file alone."""

from __future__ import annotations

from glob import escape
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from lightbox.formats.signature import FileSignature

SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
SAVED_MODEL_PLATFORM = "tensorflow_savedmodel"


class Format(NamedTuple):
    """A format that is known by how the file's name ends. ``platform`` also names its module in here."""

    platform: str
    """The model's platform in the Open Inference Protocol."""
    suffix: str
    title: str


ONNX = Format("onnx", ".onnx", "an ONNX model")
OPENVINO_IR = Format("openvino_ir", ".xml", "a model of OpenVINO's IR")
LITERT = Format("litert", ".tflite", "a LiteRT model")
FORMATS = (ONNX, OPENVINO_IR, LITERT)


class ModelFile(NamedTuple):
    """The file of a model that is no SavedModel. Files that belong to it lie beside ``place``."""

    path: Path
    format: Format

    def place(self) -> Path:
        """Return the target of links to the file, as long as its name has the format's suffix.

        A blob store links single files and has names without suffixes: files that belong together are together before
        such a link.
        """
        path = self.path.parent.resolve() / self.path.name
        while path.is_symlink() and path.readlink().suffix == self.format.suffix:
            linked = path.parent / path.readlink()
            path = linked.parent.resolve() / linked.name
        return path

    def parts(self) -> list[Path]:
        """Return the file and those that belong to it: their names begin with its own, less the suffix."""
        path = self.place()
        beside = (file for file in path.parent.glob(f"{escape(path.stem)}.*") if file.is_file() and file != path)
        return [path, *sorted(beside)]

    def signature(self) -> FileSignature:
        """Return its signature. Raises OSError, and ValueError for a damaged file or another format."""
        found: FileSignature = import_module(f"{__name__}.{self.format.platform}").read_signature(self.place())
        return found


def is_saved_model(folder: Path) -> bool:
    """Return whether a folder is itself a SavedModel."""
    return any((folder / name).is_file() for name in SAVED_MODEL_FILES)


def as_model_file(path: Path) -> ModelFile | None:
    """Return a file as a model of the format in its name, None for another name.

    An upper-case suffix does not count: OpenVINO and the names of further files depend on it.
    """
    found = next((known for known in FORMATS if known.suffix == path.suffix), None)
    return ModelFile(path, found) if found is not None and path.is_file() else None


def model_files(folder: Path) -> list[ModelFile]:
    """Return all model files in a folder; XML is one beside its weights."""
    found = filter(None, map(as_model_file, sorted(folder.glob("*.*"))))
    return [file for file in found if file.format != OPENVINO_IR or file.path.with_suffix(".bin").exists()]


def model_file(version: Path) -> ModelFile | None:
    """Return the file of a version, None beside a SavedModel: the one whose name is ``model``, else the only one.

    ``version`` is a folder, or the file itself.
    """
    if version.is_file():
        return as_model_file(version)
    if is_saved_model(version):
        return None
    for known in FORMATS:
        if named := as_model_file(version / f"model{known.suffix}"):
            return named
    found = model_files(version)
    return found[0] if len(found) == 1 else None


def holds_model(version: Path) -> bool:
    """Return whether a version, see ``model_file``, is a model that engines open."""
    return is_saved_model(version) or model_file(version) is not None


def platform(version: Path) -> str:
    """Return the platform of a version's model in the Open Inference Protocol."""
    found = model_file(version)
    return found.format.platform if found else SAVED_MODEL_PLATFORM
