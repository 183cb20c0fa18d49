"""Errors for other files in place of a SavedModel name the file and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_files.checks import unusable_versions, version_problem
from lightbox.model_files.layout import ModelLayoutError, find_models
from support.parameters import each

from .test_checks import put


@each(
    ("name", "sentence"),
    [
        ("net.keras", "is a Keras model: keras.models.load_model"),
        ("net.h5", "is a Keras model, or weights of one, in HDF5: keras.models.load_model"),
        ("net.pt", "is a PyTorch model: torch.onnx.export makes an ONNX model"),
        ("net.pth", "is a PyTorch model: torch.onnx.export makes an ONNX model"),
        ("net.xml", "is OpenVINO's IR: MODEL_DIR/NAME/1/model.xml is served with model.bin beside it"),
        ("frozen_graph.pb", "is a frozen graph: load it with tf.compat.v1.import_graph_def"),
        ("net.tar.gz", "is an archive: unpack it"),
        ("model.pkl", "is a pickled object of Python: skl2onnx makes an ONNX model"),
        ("model.skops", "is a model of scikit-learn: skl2onnx makes an ONNX model"),
        ("net.ckpt-100.index", "is a checkpoint: build the model in code"),
    ],
)
def test_another_format_wherever_a_version_is_expected(tmp_path: Path, name: str, sentence: str) -> None:
    for place in ("plain", "named/net", "versioned/1", "named_and_versioned/net/1"):
        file = put(tmp_path, f"{place}/{name}")
        root = tmp_path / place.partition("/")[0]
        try:
            (said,) = [problem for model in find_models(root) for problem in unusable_versions(model)]
        except ModelLayoutError as error:
            said = str(error)
        assert f"; {file} {sentence}" in said


@each(
    ("files", "sentence"),
    [
        ((), "; the folder is empty"),
        (
            ("variables/variables.index", "fingerprint.pb"),
            "; it holds fingerprint.pb and variables of one: the",
        ),
        (
            ("model.savedmodel/saved_model.pb",),
            "model.savedmodel is as Triton has it: move what it holds",
        ),
        (("notes.txt",), ""),
    ],
)
def test_a_version_without_a_saved_model_says_what_it_is(tmp_path: Path, files: tuple[str, ...], sentence: str) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    for file in files:
        put(folder, file)
    said = version_problem(folder, "net", 1)
    assert said is not None
    assert said.startswith(
        f"{folder} holds no saved_model.pb{sentence}" if sentence.startswith(";") else f"{folder} holds no"
    )
    assert sentence in said


def test_an_empty_model_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelLayoutError, match=r"model\.tflite in its place; the folder is empty$"):
        find_models(tmp_path)
