"""Finds models on disk as SageMaker lays them out.

    ROOT/<N>/                 one model, named after ROOT
    ROOT/<name>/<N>/          several models
    ROOT/export/Servo/<N>/    the form of SageMaker's training jobs; named Servo
    ROOT/, ROOT/<name>/       a model with no version directory; served as version 1
    ROOT                      a model file; named after it, and served as version 1
    ROOT/, ROOT/<name>/       MLflow's form, with a SavedModel or ONNX model in it; served as version 1

``<N>`` is a whole number, leading zeros allowed. A version holds a SavedModel or a file of another format, see
``lightbox.model_runtime.formats``. ``code/`` holds the user's code, never a model. Folders of digits are versions only
if at least one of them holds a model: ``data/2024/`` and ``checkpoints/1000/`` beside a model are ignored. So are
folders without a model, such as ``lost+found/``, and those that other programs make.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.model_files.foreign_files import (
    MLFLOW,
    MLFLOW_SAVED_MODELS,
    describe_foreign_file,
    describe_foreign_folder,
)
from lightbox.model_runtime.access import access_problem, is_dir, is_file, open_file
from lightbox.model_runtime.formats import FORMATS, as_model_file, holds_model, is_saved_model

LARGEST_VERSION = (1 << 63) - 1
"""The model servers' version numbers are signed 64-bit integers."""
LONGEST_NAME = 255
"""Longest name of a model, as in AWS's container."""
NAME_EXPECTED = f"letters, digits, '.', '_' and '-', at most {LONGEST_NAME} characters"
"""The condition of ``is_model_name`` in words."""
MAX_DEPTH = 4
WEIGHTS_NOTE = Path("assets.extra", "weights.txt")
"""File in a version with the origin of its weights. A SavedModel reserves this folder for such files."""
LONGEST_NOTE = 300
STRANGERS = frozenset(
    {"lost+found", "@eaDir", "#recycle", "System Volume Information", "$RECYCLE.BIN", "__MACOSX", "__pycache__"}
)
"""Folders of file systems and other programs, whatever they hold; those that begin with a dot are no models either."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_Identity = tuple[int, int]
"""A folder's device and inode."""


class ModelLayoutError(StartError):
    """The model directory cannot be served; the message is one sentence that names the path."""


@dataclass(frozen=True)
class ModelOnDisk:
    """One model. ``base_path`` holds version directories or, if ``unversioned``, is the model: a folder or a file.

    ``inside`` leads from there to the folder of an unversioned model that does not lie in ``base_path`` itself.
    """

    name: str
    base_path: Path
    unversioned: bool = False
    inside: Path = Path()


def is_model_name(name: str) -> bool:
    """Return whether a model may have this name: letters, digits, ``.``, ``_``, ``-``, at most LONGEST_NAME."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None and name.strip(".") != ""


def find_models(root: Path) -> list[ModelOnDisk]:
    """Return the models below ``root`` by name; raise ModelLayoutError without any, or for an invalid name."""
    models: dict[str, ModelOnDisk] = {}
    for model in models_below(root):
        if not is_model_name(model.name):
            raise ModelLayoutError(
                f"LIGHTBOX_MODEL_DIR: {model.base_path} cannot be a model's name: expected {NAME_EXPECTED}"
            )
        if model.name in models:
            raise ModelLayoutError(
                f"LIGHTBOX_MODEL_DIR: two models are named {model.name}: "
                f"{models[model.name].base_path} and {model.base_path}"
            )
        models[model.name] = model
    return [models[name] for name in sorted(models)]


def models_below(root: Path) -> list[ModelOnDisk]:
    """Return the models below ``root``, whatever their names; raise ModelLayoutError without any."""
    if problem := access_problem(root):
        raise ModelLayoutError(f"LIGHTBOX_MODEL_DIR: {problem}")
    if root.is_file() and not as_model_file(root):
        raise ModelLayoutError(
            f"LIGHTBOX_MODEL_DIR: the model directory {root} is a file, not a directory{describe_foreign_file([root])}"
        )
    if not root.exists():
        raise ModelLayoutError(f"LIGHTBOX_MODEL_DIR: the model directory {root} does not exist")
    walk = _Walk()
    models = list(walk.all(root))
    if not models and walk.unreadable:
        raise ModelLayoutError(
            f"LIGHTBOX_MODEL_DIR: no model was found in {root}: {'; '.join(walk.unreadable.values())}"
        )
    if not models:
        raise ModelLayoutError(
            f"LIGHTBOX_MODEL_DIR: no model was found in {root}: expected {root}/<N>/saved_model.pb, "
            f"{root}/<name>/<N>/saved_model.pb or {root}/export/Servo/<N>/saved_model.pb, N a whole number; "
            f"or {', '.join(f'model{known.suffix}' for known in FORMATS)} in its place{_foreign_content(root)}"
        )
    # If none can be served, all are returned, so that the error describes each of their versions.
    return [model for model, servable in models if servable] or [model for model, _ in models]


def _foreign_content(root: Path) -> str:
    """Return the content of ``root`` and its folders in place of models."""
    folders = (
        folder
        for folder in sorted(root.iterdir())
        if is_dir(folder) and folder.name != "code" and folder.name[0] != "." and not access_problem(folder)
    )
    return describe_foreign_folder(root) or describe_foreign_file(
        file for folder in folders for file in sorted(folder.iterdir())
    )


def folders_without_model(root: Path) -> dict[Path, str]:
    """Return the folders below ``root`` that hold no model that engines open; "" or why the user may not read one."""
    walk = _Walk()
    found = [(model.base_path, servable) for model, servable in walk.all(root)]
    models = {path for path, servable in found if servable}
    unserved = dict.fromkeys([path for path, servable in found if not servable], "") | walk.unreadable
    holding = {above for path in (*models, *unserved) for above in (path, *path.parents)}
    ignored = dict.fromkeys([path for path in walk.seen if path not in holding | {root}], "") | unserved
    return {path: why for path, why in sorted(ignored.items()) if ignored.keys().isdisjoint(path.parents)}


def choose_default(models: list[ModelOnDisk], requested: str | None) -> str:
    """Return the default model's name: ``requested``, else the first one. Raises ModelLayoutError if unknown."""
    names = [model.name for model in models]
    if requested is None:
        return names[0]
    if requested not in names:
        raise ModelLayoutError(
            f"SAGEMAKER_TFS_DEFAULT_MODEL_NAME: there is no model named {requested!r}; found: {', '.join(names)}"
        )
    return requested


@dataclass(frozen=True)
class _Listing:
    """The relevant content of a folder. A file ``beside`` folders is a model if these hold none."""

    model: bool
    folders: tuple[Path, ...] = ()
    versioned: bool = False
    servable: bool = False
    inside: Path = Path()
    beside: bool = False


class _Walk:
    """Reads each folder once, whatever the number of links to it; links to a parent folder are skipped.

    ``_holding`` are the folders with servable models in their subfolders, which a second link does not find again.
    ``seen`` are the folders that it came to, ``unreadable`` those that the user may not read, each with a sentence.
    """

    def __init__(self) -> None:
        self._listings: dict[_Identity, _Listing] = {}
        self._holding: set[_Identity] = set()
        self.seen: list[Path] = []
        self.unreadable: dict[Path, str] = {}

    def all(self, root: Path) -> Iterator[tuple[ModelOnDisk, bool]]:
        """Yield the models below a folder, or the model that is a file, and whether each can be served."""
        if root.is_file():
            return iter([(ModelOnDisk(root.stem, root, unversioned=True), True)])
        return self._models(root, MAX_DEPTH, frozenset())

    def _models(self, folder: Path, depth: int, above: frozenset[_Identity]) -> Iterator[tuple[ModelOnDisk, bool]]:
        """Yield the models of a folder with the parents ``above``, and of ``depth`` levels below."""
        self.seen.append(folder)
        if above and (folder.name.startswith(".") or folder.name in STRANGERS):
            return
        if problem := access_problem(folder):
            self.unreadable[folder] = problem
            return
        identity = _identity(folder)
        if identity in above:
            return
        known = self._listings.get(identity)
        listing = self._listings[identity] = known or _listing(folder)
        result = list[tuple[ModelOnDisk, bool]]()
        if known is None and depth and not listing.model:
            for entry in listing.folders:
                result += self._models(entry, depth - 1, above | {identity})
        is_new = known is None and not listing.model
        if is_new and (any(servable for _, servable in result) or self._holds_below(listing)):
            self._holding.add(identity)
        if listing.model or (listing.beside and identity not in self._holding):
            yield ModelOnDisk(folder.name, folder, unversioned=True, inside=listing.inside), listing.servable
        elif listing.versioned:
            yield ModelOnDisk(folder.name, folder), listing.servable
        yield from result

    def _holds_below(self, listing: _Listing) -> bool:
        """Return whether a subfolder is a link to a folder that was read before and holds models."""
        return not self._holding.isdisjoint(map(_identity, listing.folders))


def _identity(folder: Path) -> _Identity:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _listing(folder: Path) -> _Listing:
    if is_saved_model(folder):
        return _Listing(model=True, servable=True)
    if is_file(folder / MLFLOW):
        inside = next((Path(path) for path in MLFLOW_SAVED_MODELS if is_saved_model(folder / path)), Path())
        return _Listing(model=True, servable=holds_model(folder / inside), inside=inside)
    entries = sorted(folder.iterdir())
    folders = [entry for entry in entries if is_dir(entry) and not entry.name.startswith("..")]
    versions = [entry for entry in folders if is_version(entry.name)]
    others = tuple(entry for entry in folders if not is_version(entry.name) and entry.name != "code")
    alone = not versions and holds_model(folder)
    servable = alone or any(map(_may_hold_model, versions))
    return _Listing(alone and not others, others, bool(versions), servable, beside=alone)


def _may_hold_model(version: Path) -> bool:
    """Return whether a version holds a model, or cannot be read, which a start reports."""
    return access_problem(version) is not None or holds_model(version)


def is_servable(model: ModelOnDisk) -> bool:
    """Return whether any version of a model holds a file that engines open."""
    if model.unversioned:
        return True
    return any(is_version(entry.name) and _may_hold_model(entry) for entry in model.base_path.iterdir())


def is_version(name: str) -> bool:
    """Return whether a directory of this name holds a version: digits only."""
    return name.isascii() and name.isdigit()


def version_numbers(base_path: Path) -> set[int]:
    """Return the versions in a base path that a model server loads."""
    numbers = {int(entry.name) for entry in base_path.iterdir() if is_version(entry.name) and is_dir(entry)}
    return {number for number in numbers if number <= LARGEST_VERSION}


def version_folder(base_path: Path, version: int) -> Path:
    """Return the folder of a version, whose name may have leading zeros. Raises OSError."""
    plain = base_path / str(version)
    if is_dir(plain):
        return plain
    named = (entry for entry in base_path.iterdir() if is_version(entry.name) and int(entry.name) == version)
    return next(named, plain)


def weights_note(folder: Path) -> str:
    """Return a version's note about its weights, empty if absent."""
    try:
        with open_file(folder / WEIGHTS_NOTE) as file:
            return file.readline(4 * LONGEST_NOTE).decode("utf-8", "replace")[:LONGEST_NOTE].strip()
    except OSError:
        return ""
