"""Where a model that is to be loaded lies: inside the models directory, whatever links say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightbox.errors import BadRequest, ModelNotFound
from lightbox.model_layout import ModelLayoutError, ModelOnDisk, find_models, is_model_name, is_servable

MAX_ENTRIES = 20_000
"""Files and folders of one model that are looked at."""


@dataclass(frozen=True)
class Source:
    """A model's folder: its path, and the caller's words for it, which errors use: the field, and what stood there."""

    path: object
    field: str = "url"
    words: str | None = None

    @property
    def shown(self) -> str:
        """What the caller wrote, short enough for an error."""
        return str(self.path if self.words is None else self.words)[:200]


def check_name(name: object) -> str:
    """Return a model's name, or raise BadRequest."""
    if not isinstance(name, str) or not is_model_name(name):
        raise BadRequest(
            "model_name: expected a name of letters, digits, '.', '_' and '-', at most 200 characters, "
            f"got {str(name)[:200]!r}"
        )
    return name


def locate(source: Source, roots: Sequence[Path]) -> tuple[Path, ModelOnDisk]:
    """Return the folder that ``source``, a path in one of ``roots``, names and the one model in it.

    A relative path is meant from the first root. Raises BadRequest when the path, or a link below it, leaves its
    root, or when several models lie there; ModelNotFound when none does.
    """
    path, field, shown = source.path, source.field, source.shown
    if not isinstance(path, str) or not path or "\x00" in path:
        raise BadRequest(f"{field}: expected the path of a model's folder, got {shown!r}")
    try:
        folder = (roots[0] / path.removeprefix("file://")).resolve()
    except (OSError, RuntimeError):
        raise BadRequest(f"{field}: the path {shown!r} cannot be followed") from None
    inside = next((root.resolve() for root in roots if root.resolve() in folder.parents), None)
    if inside is None:
        raise BadRequest(f"{field}: expected a path below {roots[0]}, got {shown!r}")
    if not folder.is_dir():
        raise ModelNotFound(f"{field}: there is no folder {shown!r}")
    _check_links(folder, inside, field)
    try:
        models = find_models(folder)
    except ModelLayoutError:
        raise ModelNotFound(f"{field}: no SavedModel was found in {shown!r}") from None
    if len(models) != 1:
        raise BadRequest(f"{field}: expected one model in {shown!r}, found {', '.join(m.name for m in models)}")
    return folder, _with_a_version(models[0], source)


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
