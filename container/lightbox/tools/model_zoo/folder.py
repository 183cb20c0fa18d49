"""A model's folder as the server reads it: ROOT/<version>/ beside ROOT/code/lightbox.json."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lightbox.tools.model_zoo.staging import replace_file, staging

FILES = ("saved_model.pb", "model.onnx")
"""The file of a version, by which it is known."""
SETTINGS = Path("code", "lightbox.json")
LABELS = SETTINGS.with_name("labels.txt")


class Refused(Exception):
    """The export would damage or contradict existing files; the text says what to do."""


def versions(root: Path) -> list[int]:
    """Return the versions under `root` that hold a model, oldest first."""
    return sorted({int(file.parent.name) for file in root.glob("*/*") if is_model(file)})


def is_model(file: Path) -> bool:
    """Return whether it is the file of a version."""
    return file.name in FILES and file.parent.name.isdigit()


def version_to_write(root: Path, requested: int | None, force: bool) -> int:
    """Return the version an export should write: the wanted one, else 1, else with force the newest again."""
    present = versions(root)
    if not present:
        return requested or 1
    newest = present[-1]
    version = requested or newest
    if force or (requested is not None and requested not in present):
        return version
    raise Refused(
        f"{root} has version {version} already: pass --version {newest + 1} to put a new one beside it, "
        "or --force to replace it"
    )


def check_writable(root: Path) -> None:
    """Refuse a folder that cannot be written or made, before seconds go into building."""
    nearest = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise Refused(f"{root} cannot be made: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Refused(f"{root} cannot be written: no permission to write in {nearest}")


def read_settings(root: Path) -> dict[str, Any]:
    """Return the content of code/lightbox.json, empty when it is missing."""
    path = root / SETTINGS
    if not path.exists():
        return {}
    try:
        settings = json.loads(path.read_text())
    except ValueError as error:
        raise Refused(f"{path} is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise Refused(f"{path} must hold a JSON object, not {json.dumps(settings)[:40]}")
    return settings


def settings_to_write(root: Path, scaling: str, force: bool) -> dict[str, Any]:
    """Return code/lightbox.json with this scaling and everything else that it holds already.

    The file is shared by all versions, so another scaling would change what the present ones are fed.
    """
    settings = read_settings(root)
    present = settings.get("scaling", scaling)
    if present != scaling and not force:
        raise Refused(
            f'{root / SETTINGS} says "scaling": "{present}" for every version of this model, '
            f'and this export needs "{scaling}": choose another folder, or pass --force to change it'
        )
    return settings | {"scaling": scaling}


def write_settings(root: Path, settings: dict[str, Any], labels: Sequence[str] = ()) -> None:
    """Write code/lightbox.json, whole or not at all; before it the names of classes, unless it has its own."""
    if labels and "labels" not in settings:
        replace_file(root / LABELS, "\n".join(labels) + "\n")
        settings = settings | {"labels": LABELS.name}
    replace_file(root / SETTINGS, json.dumps(settings, indent=2) + "\n")


def write_version(
    root: Path, version: int, settings: dict[str, Any], labels: Sequence[str], save_to: Callable[[Path], object]
) -> Path:
    """Let ``save_to`` write a version's directory, and return it.

    The version appears whole, after code/lightbox.json: a server that polls the folder never sees less.
    """
    with staging(root) as partial_folder:
        # Not a number: what a killed run leaves must not pass for a version of a model named .partial-…
        built = partial_folder / "version"
        built.mkdir()
        save_to(built)
        write_settings(root, settings, labels)
        target = root / str(version)
        if target.exists():
            target.rename(partial_folder / "replaced")
        built.rename(target)
    return target
