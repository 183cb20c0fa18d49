"""A small model to optimize, and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightbox.tools.optimize.trial import Subject
from support.fakes import png
from support.onnx_models import write_classifier


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """Return an ONNX classifier of colors."""
    write_classifier(tmp_path / "m" / "1" / "model.onnx")
    return Subject(str(tmp_path / "m"), tmp_path / "m" / "1", {}, (), "{}", may_decode=True)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder of 60 pictures of three colors."""
    folder = tmp_path / "photos"
    for number in range(60):
        color = [20, 20, 20]
        color[number % 3] = 195 + number
        path = folder / str(number % 3) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(np.full((8, 8, 3), color)))
    return folder
