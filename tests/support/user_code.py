"""A user's code on disk, and the planned model that has it."""

from __future__ import annotations

from pathlib import Path

from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions


def write(file: Path, text: str) -> Path:
    """Write a file and create its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def model(name: str, *code_dirs: Path) -> PlannedModel:
    """Return a model with these code folders; it is never loaded."""
    return PlannedModel(name=name, base_path=Path("/m"), options=ModelOptions(), code_dirs=code_dirs)
