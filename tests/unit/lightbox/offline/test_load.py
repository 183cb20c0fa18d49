"""lightbox.load refuses the options that a start refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lightbox
from lightbox.core.errors import StartError
from support.onnx_models import write_classifier

UNFIT: dict[str, Any] = {
    "labels": ["background", "red", "green", "blue"],
    "detections": "tf",
    "outputs": ["probabilities"],
    "mean": [0.5, 0.5],
    "top_k": 3,
}


@pytest.mark.parametrize("key", UNFIT)
@pytest.mark.parametrize("from_file", [False, True])
def test_options_that_do_not_fit_the_model_are_refused(key: str, from_file: bool, tmp_path: Path) -> None:
    write_classifier(tmp_path / "colors" / "1" / "model.onnx")
    options = {key: UNFIT[key]} | ({"outputs": ["other"]} if key == "top_k" else {})
    if from_file:
        (tmp_path / "colors" / "code").mkdir()
        (tmp_path / "colors" / "code" / "lightbox.json").write_text(json.dumps(options))
    with pytest.raises(StartError, match=rf"{'lightbox.json' if from_file else 'LIGHTBOX_OPTIONS'}: {key}: "):
        lightbox.load(tmp_path / "colors", **({} if from_file else options))
