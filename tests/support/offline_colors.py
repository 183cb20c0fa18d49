"""A classifier of colors that is loaded without a server, and the rows of its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import lightbox
from lightbox.tools.offline import rows
from support.onnx_models import write_classifier

PIXELS = np.zeros((8, 8, 3), np.uint8)


def colors(folder: Path) -> Path:
    """Return a folder with the model."""
    write_classifier(folder / "colors" / "1" / "model.onnx")
    return folder / "colors"


def load(folder: Path, code: str = "") -> Any:
    if code:
        (folder / "code").mkdir()
        (folder / "code" / "inference.py").write_text(code)
    return lightbox.load(folder, engine="openvino")


def texts(model: Any) -> list[str | None]:
    return [row.response for row in rows(model, [("a.png", PIXELS)])]
