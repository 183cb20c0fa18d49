"""Rows of predictions, written once as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lightbox.tools.offline import rows
from support.offline_colors import PIXELS, colors, load, texts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return colors(tmp_path)


def test_a_prediction_is_written_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(folder)
    prediction = model.predict(PIXELS)

    def refuse(*_: object) -> None:
        raise AssertionError("a row is parsed or written again")

    for module, name in (("image_request", "from_json"), ("model", "from_json"), ("rows", "json_text")):
        monkeypatch.setattr(sys.modules[f"lightbox.tools.offline.{module}"], name, refuse)
    (text,) = texts(model)
    monkeypatch.undo()
    assert text is not None and json.loads(text) == prediction


def test_json_that_is_none_is_an_error_of_the_row(folder: Path) -> None:
    model = load(folder, 'def postprocess(outputs, request):\n    return b"{no", "application/json"\n')
    (row,) = rows(model, [("a.png", PIXELS)])
    assert row.code == "handler_failed" and "no JSON" in str(row.error)
