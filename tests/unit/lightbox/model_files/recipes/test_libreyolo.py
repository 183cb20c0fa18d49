"""The metadata that libreyolo writes become options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightbox.model.options import RecipeError, ResolvedOptions
from support.recipes import resolved, write_network
from unit.lightbox.model_files.recipes.test_recipes_as_the_libraries import FOLDER

NOTES = {"libreyolo_version": "1.6.0", "model_family": "yolo9", "task": "detect", "names": '{"0": "cat", "1": "dog"}'}


def options_of(folder: Path, **notes: str) -> ResolvedOptions:
    outputs = {"output": np.zeros((1, 6, 21), np.float32)}
    return resolved(write_network(folder / "net.onnx", outputs, metadata=NOTES | notes))


def test_a_family_has_its_pixels_and_its_answers() -> None:
    options = resolved(FOLDER / "libreyolo_rtmdet" / "model.onnx")
    assert (options.fit, options.pad_at, options.rounding, options.resize) == ("letterbox", "end", "lower", "bilinear")
    assert (options.channels, options.scaling, options.mean) == ("bgr", "none", (103.53, 116.28, 123.675))
    assert (options.detections, options.iou_threshold) == ("libreyolo", 0.45)
    assert options.labels == tuple(f"thing {number}" for number in range(4))
    assert options.recipe_source == "the metadata of model.onnx (libreyolo 1.6.0)"
    assert options.recipe_said == "rtmdet, objects"


def test_the_letterbox_is_where_the_file_says(tmp_path: Path) -> None:
    assert [options_of(tmp_path, letterbox_pad=pad).pad_at for pad in ("topleft", "center")] == ["end", "sides"]
    with pytest.raises(RecipeError, match="letterbox_pad: expected topleft or center, got 'left'; set recipe to none"):
        options_of(tmp_path, letterbox_pad="left")


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        (
            {"model_family": "fomo"},
            "model_family: expected yolo9, yolox, rtmdet, dfine, rfdetr that detect, got 'fomo'",
        ),
        ({"task": "segment"}, "got 'yolo9' for the task 'segment'; set recipe to none, and the options"),
        ({"names": '{"0": '}, "names: expected a number, a list or names"),
        ({"names": '["cat"]'}, "expected a label for each of the 2 classes, its metadata have 1; set recipe to none"),
    ],
)
def test_what_cannot_be_followed_stops_the_start(tmp_path: Path, notes: dict[str, str], said: str) -> None:
    with pytest.raises(RecipeError, match=said.replace("[", r"\[")):
        options_of(tmp_path, **notes)
