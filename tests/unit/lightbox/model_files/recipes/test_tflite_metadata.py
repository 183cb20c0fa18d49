"""TFLite Metadata in a file that MediaPipe's writer has made become options."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lightbox.model.options import RecipeError
from support.recipes import resolved
from unit.lightbox.model_files.recipes.test_recipes_as_the_libraries import FOLDER

FILE = FOLDER / "litert_mediapipe" / "model.tflite"


def test_a_classifier_needs_no_options() -> None:
    options = resolved(FILE)
    assert (options.fit, options.resize, options.scaling) == ("stretch", "opencv_bilinear", "none")
    assert (options.mean, options.std) == ((127.5,), (127.5,))
    assert (options.labels, options.activation, options.top_k) == (("cat", "dog", "big_cow", "other"), "none", 5)
    assert options.recipe_source == "the metadata of model.tflite (LiteRT)"
    quantized = resolved(FOLDER / "litert_quantized" / "model.tflite")
    assert (quantized.mean, quantized.std, quantized.dequantize) == (None, None, (1 / 256, 0))


def test_labels_are_in_the_archive_behind_the_file(tmp_path: Path) -> None:
    file = Path(shutil.copy(FILE, tmp_path / "net.tflite"))
    content = file.read_bytes()
    file.write_bytes(content[: content.index(b"PK\3\4")])
    with pytest.raises(RecipeError, match=r"the metadata of net\.tflite \(LiteRT\): labels: expected 1 to"):
        resolved(file)
