"""Formats of models other than SavedModel: a module for each reads a file's signature from the file alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from importlib import import_module
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lightbox.model_runtime.access import is_file
from lightbox.model_runtime.formats.signature import FileSignature, check_tensors

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
        """Return the target of links to the file, as long as its name has the format's suffix and the weights that are
        beside the link are beside the target.

        A store that links single files has names without suffixes, or folders for each file: files that belong together
        are together before such a link. Links to folders stay: one may lead into another process's root, whose paths
        are not those here.
        """
        path = self.path
        while path.is_symlink() and path.readlink().suffix == self.format.suffix:
            target = path.parent / path.readlink()
            pairs = zip(self._weights(path), self._weights(target), strict=True)
            if any(is_file(here) and not is_file(there) for here, there in pairs):
                break
            path = target
        return path

    def _weights(self, path: Path) -> list[Path]:
        """Return where the file has its weights if it is at ``path``."""
        if self.format == OPENVINO_IR:
            return [path.with_suffix(".bin")]
        return [path.parent / name for name in self._weights_outside()]

    def parts(self) -> list[Path]:
        """Return the file and those that belong to it: the graph names them, or their names begin with its own, less
        the suffix."""
        path = self.place()
        named = (path.parent / name for name in self._weights_outside())
        beside = {file for file in (*path.parent.glob(f"{escape(path.stem)}.*"), *named) if is_file(file)}
        return [path, *sorted(beside - {path})]

    def weights(self) -> list[Path]:
        """Return where its weights are, whether or not anything is there."""
        return [file for path in {self.path, self.place()} for file in self._weights(path)]

    def _weights_outside(self) -> list[str]:
        """Return the paths of files that the graph names, relative to its own; not those that lead out of its folder,
        which no engine takes."""
        if self.format != ONNX:
            return []
        from lightbox.model_runtime.formats.onnx import weights_outside

        with suppress(OSError, ValueError):  # the engine says why
            found = map(Path, weights_outside(self.path))
            return [str(path) for path in found if not path.is_absolute() and ".." not in path.parts]
        return []

    @contextmanager
    def together(self) -> Iterator[Path]:
        """Yield a path of the file for engines: they take its weights only from the folder that it is in, by the paths
        that links lead to. For links to several folders, or into another process's root, it is that of a copy.

        The copy is removed after the block. Raises OSError.
        """
        path, outside = self.place(), self._weights_outside()
        folder = path.parent.resolve()
        is_here = not outside or ((folder / path.name).exists() and (folder / path.name).samefile(path))
        if is_here and all((path.parent / name).resolve().is_relative_to(folder) for name in outside):
            yield path
            return
        with TemporaryDirectory(prefix="weights-") as copy:
            for name in (path.name, *outside):
                to = Path(copy, name)
                to.parent.mkdir(parents=True, exist_ok=True)
                copyfile(path.parent / name, to)
            yield Path(copy, path.name)

    def signature(self) -> FileSignature:
        """Return its signature. Raises OSError, and ValueError for a damaged file or another format."""
        found: FileSignature = import_module(f"{__name__}.{self.format.platform}").read_signature(self.place())
        for tensors in (found.inputs, found.outputs):
            check_tensors({name: tensor.shape for name, tensor in tensors.items()})
        return found


def is_saved_model(folder: Path) -> bool:
    """Return whether a folder is itself a SavedModel; False if it cannot be read."""
    return any(is_file(folder / name) for name in SAVED_MODEL_FILES)


def as_model_file(path: Path) -> ModelFile | None:
    """Return a file as a model of the format in its name, None for another name.

    An upper-case suffix does not count: OpenVINO and the names of further files depend on it.
    """
    found = next((known for known in FORMATS if known.suffix == path.suffix), None)
    return ModelFile(path, found) if found is not None and is_file(path) else None


def model_files(folder: Path) -> list[ModelFile]:
    """Return all model files in a folder; XML is one beside its weights."""
    found = filter(None, map(as_model_file, sorted(folder.glob("*.*"))))
    return [file for file in found if file.format != OPENVINO_IR or file.path.with_suffix(".bin").exists()]


def model_file(version: Path) -> ModelFile | None:
    """Return the file of a version, None beside a SavedModel: the one whose name is ``model``, else the only one.

    ``version`` is a folder, or the file itself.
    """
    if is_file(version):
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
