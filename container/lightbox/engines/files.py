"""The files that engines open, told apart by what lies in a version's folder."""

from __future__ import annotations

from pathlib import Path

SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")


def is_saved_model(folder: Path) -> bool:
    """Tell whether a folder is itself a SavedModel."""
    return any((folder / name).is_file() for name in SAVED_MODEL_FILES)


def onnx_file(folder: Path) -> Path | None:
    """Return the ONNX file of a version, None beside a SavedModel: ``model.onnx``, else the only one."""
    if is_saved_model(folder):
        return None
    named = folder / "model.onnx"
    found = [named] if named.is_file() else [file for file in folder.glob("*.onnx") if file.is_file()]
    return found[0] if len(found) == 1 else None


def holds_model(folder: Path) -> bool:
    """Tell whether a version's folder holds a file that engines open."""
    return is_saved_model(folder) or onnx_file(folder) is not None
