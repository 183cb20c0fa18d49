"""Rows of predictions, written once as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightbox
from lightbox.tools.offline import rows
from support.onnx_models import write_classifier

PIXELS = np.zeros((8, 8, 3), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_classifier(tmp_path / "colors" / "1" / "model.onnx")
    return tmp_path / "colors"


def load(folder: Path, code: str = "") -> Any:
    if code:
        (folder / "code").mkdir()
        (folder / "code" / "inference.py").write_text(code)
    return lightbox.load(folder, engine="openvino")


def texts(model: Any) -> list[str | None]:
    return [row.response for row in rows(model, [("a.png", PIXELS)])]


def test_a_prediction_is_written_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(folder)
    prediction = model.predict(PIXELS)

    def refuse(*_: object) -> None:
        raise AssertionError("a row is parsed or written again")

    for module, name in (("image", "from_json"), ("model", "from_json"), ("rows", "json_text")):
        monkeypatch.setattr(sys.modules[f"lightbox.tools.offline.{module}"], name, refuse)
    (text,) = texts(model)
    monkeypatch.undo()
    assert text is not None and json.loads(text) == prediction


def test_json_that_is_none_is_an_error_of_the_row(folder: Path) -> None:
    model = load(folder, 'def postprocess(outputs, request):\n    return b"{no", "application/json"\n')
    (row,) = rows(model, [("a.png", PIXELS)])
    assert row.code == "handler_failed" and "no JSON" in str(row.error)
