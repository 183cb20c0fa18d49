"""Where a model that is to be loaded lies: inside the models directory, whatever links say."""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from lightbox.errors import BadRequest, ModelNotFound
from lightbox.model_layout import LONGEST_NAME, ModelLayoutError, ModelOnDisk, find_models, is_model_name, is_servable

ARCHIVE_ENDINGS = (".tar.gz", ".tgz")
MAX_ENTRIES = 20_000
"""Files and folders of one model that are looked at."""


@dataclass(frozen=True)
class Source:
    """Where a model lies, in the caller's words, and what the caller calls that: errors begin with this field."""

    path: object
    field: str = "url"
    may_be_archive: bool = False

    @property
    def shown(self) -> str:
        """What the caller wrote, short enough for an error."""
        return str(self.path)[:200]


def check_name(name: object) -> str:
    """Return a model's name, or raise BadRequest."""
    if not isinstance(name, str) or not is_model_name(name):
        raise BadRequest(
            f"model_name: expected a name of letters, digits, '.', '_' and '-', at most {LONGEST_NAME} characters, "
            f"got {str(name)[:200]!r}"
        )
    return name


def locate(source: Source, root: Path) -> Path:
    """Return the folder that ``source`` names, or the archive; a relative path is meant from ``root``.

    Raises BadRequest when the path leaves ``root``, ModelNotFound when there is nothing.
    """
    path, field, shown = source.path, source.field, source.shown
    if not isinstance(path, str) or not path or "\x00" in path:
        raise BadRequest(f"{field}: expected the path of a model's folder, got {shown!r}")
    try:
        found = (root / path.removeprefix("file://")).resolve()
        there = found.is_dir() or (source.may_be_archive and path.endswith(ARCHIVE_ENDINGS) and found.is_file())
    except (OSError, RuntimeError):
        raise BadRequest(f"{field}: the path {shown!r} cannot be followed") from None
    if root.resolve() not in found.parents:
        raise BadRequest(f"{field}: expected a path below LIGHTBOX_MODEL_DIR, got {shown!r}")
    if not there:
        raise ModelNotFound(f"{field}: there is no model {shown!r}")
    return found


def unpack(archive: Path, folder: Path, source: Source) -> None:
    """Unpack an archive into a new folder. Raises BadRequest where that fails, or a member would leave the folder."""
    folder.mkdir(parents=True)
    try:
        with tarfile.open(archive, "r:gz") as members:
            members.extractall(folder, filter="data")
    except (tarfile.TarError, zlib.error, OSError, EOFError) as error:
        raise BadRequest(f"{source.field}: the archive cannot be unpacked: {type(error).__name__}") from None


def find_model(folder: Path, inside: Path, source: Source) -> ModelOnDisk:
    """Return the one model in a folder, where ``source`` led.

    Raises BadRequest when a link leads out of ``inside`` or several models lie there; ModelNotFound when none does.
    """
    field, shown = source.field, source.shown
    _check_links(folder, inside.resolve(), field)
    try:
        models = find_models(folder)
    except ModelLayoutError:
        raise ModelNotFound(f"{field}: no SavedModel was found in {shown!r}") from None
    if len(models) != 1:
        raise BadRequest(f"{field}: expected one model in {shown!r}, found {', '.join(m.name for m in models)}")
    return _with_a_version(models[0], source)


def _check_links(folder: Path, inside: Path, field: str) -> None:
    for count, entry in enumerate(folder.rglob("*")):
        if count >= MAX_ENTRIES:
            raise BadRequest(f"{field}: the folder holds more than {MAX_ENTRIES} files")
        if entry.is_symlink() and not entry.resolve().is_relative_to(inside):
            raise BadRequest(f"{field}: the link {entry.name!r} leads out of the models directory")


def _with_a_version(model: ModelOnDisk, source: Source) -> ModelOnDisk:
    """A model server waits for ever for a base path without a version that it could load."""
    if not is_servable(model):
        raise ModelNotFound(f"{source.field}: no version in {source.shown!r} holds a saved_model.pb")
    return model


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
