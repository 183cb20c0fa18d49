"""The files that engines open, told apart by what lies in a version's folder."""

from __future__ import annotations

from pathlib import Path

SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")


def is_saved_model(folder: Path) -> bool:
    """Tell whether a folder is itself a SavedModel."""
    return any((folder / name).is_file() for name in SAVED_MODEL_FILES)
