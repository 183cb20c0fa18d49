"""Where a model that is to be loaded lies: inside the models directory, whatever links say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightbox.errors import BadRequest, ModelNotFound
from lightbox.model_layout import ModelLayoutError, ModelOnDisk, find_models, is_model_name, is_saved_model, is_version

MAX_ENTRIES = 20_000
"""Files and folders of one model that are looked at."""


def check_name(name: object) -> str:
    """Return a model's name, or raise BadRequest."""
    if not isinstance(name, str) or not is_model_name(name):
        raise BadRequest(
            "model_name: expected a name of letters, digits, '.', '_' and '-', at most 200 characters, "
            f"got {str(name)[:200]!r}"
        )
    return name


def locate(url: object, roots: Sequence[Path]) -> tuple[Path, ModelOnDisk]:
    """Return the folder that ``url``, a path in one of ``roots``, names and the one model in it.

    A relative path is meant from the first root. Raises BadRequest when the path, or a link below it, leaves its
    root, or when several models lie there; ModelNotFound when none does.
    """
    if not isinstance(url, str) or not url or "\x00" in url:
        raise BadRequest(f"url: expected the path of a model's folder, got {str(url)[:200]!r}")
    try:
        folder = (roots[0] / url.removeprefix("file://")).resolve()
    except (OSError, RuntimeError):
        raise BadRequest(f"url: the path {url[:200]!r} cannot be followed") from None
    inside = next((root.resolve() for root in roots if root.resolve() in folder.parents), None)
    if inside is None:
        raise BadRequest(f"url: expected a path below {roots[0]}, got {url[:200]!r}")
    if not folder.is_dir():
        raise ModelNotFound(f"url: there is no folder {url[:200]!r}")
    _check_links(folder, inside)
    try:
        models = find_models(folder)
    except ModelLayoutError:
        raise ModelNotFound(f"url: no SavedModel was found in {url[:200]!r}") from None
    if len(models) != 1:
        raise BadRequest(f"url: expected one model in {url[:200]!r}, found {', '.join(m.name for m in models)}")
    return folder, _with_a_version(models[0], url)


def _check_links(folder: Path, inside: Path) -> None:
    for count, entry in enumerate(folder.rglob("*")):
        if count >= MAX_ENTRIES:
            raise BadRequest(f"url: the folder holds more than {MAX_ENTRIES} files")
        if entry.is_symlink() and not entry.resolve().is_relative_to(inside):
            raise BadRequest(f"url: the link {entry.name!r} leads out of the models directory")


def _with_a_version(model: ModelOnDisk, url: str) -> ModelOnDisk:
    """A model server waits for ever for a base path without a version that it could load."""
    if not model.unversioned:
        versions = [entry for entry in model.base_path.iterdir() if is_version(entry.name)]
        if not any(is_saved_model(version) for version in versions):
            raise ModelNotFound(f"url: no version in {url[:200]!r} holds a saved_model.pb")
    return model


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
