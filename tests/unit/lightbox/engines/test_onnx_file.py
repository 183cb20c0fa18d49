"""What an ONNX file says of itself, and which file of a folder it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from lightbox.engines.files import onnx_file
from lightbox.engines.onnx_file import OnnxSignature, OnnxTensor, read_signature, signature_def
from lightbox.model.checks import signatures_of, version_problem
from support.models import GOLDEN
from support.onnx_models import write, write_dense
from tfs_wire.dtypes import name_of

DTYPES = {"FLOAT": "float", "UINT8": "uint8", "INT64": "int64", "STRING": "string", "BOOL": "bool", "FLOAT16": "half"}


def test_names_dtypes_and_open_sides(tmp_path: Path) -> None:
    write_dense(tmp_path / "m.onnx")
    assert read_signature(tmp_path / "m.onnx") == OnnxSignature(
        {"x": OnnxTensor(1, (None, 4))}, {"y": OnnxTensor(1, (None, 3))}
    )


@pytest.mark.parametrize(("dtype", "name"), DTYPES.items())
def test_dtypes(tmp_path: Path, dtype: str, name: str) -> None:
    file = tmp_path / "m.onnx"
    write(file, [helper.make_node("Identity", ["x"], ["y"])], {"x": (dtype, None)}, {"y": (dtype, [])})
    found = read_signature(file)
    assert (name_of(found.inputs["x"].dtype), found.inputs["x"].shape) == (name, None)
    assert (name_of(found.outputs["y"].dtype), found.outputs["y"].shape) == (name, ())
    made = signature_def(found)
    assert made.inputs["x"].tensor_shape.unknown_rank
    assert not made.outputs["y"].tensor_shape.unknown_rank
    assert made.method_name == "tensorflow/serving/predict"


def test_constants_are_no_inputs(tmp_path: Path) -> None:
    """Older files list them among the inputs, as an exporter with keep_initializers_as_inputs does."""
    node = helper.make_node("Add", ["x", "c"], ["y"])
    constants = {"c": np.ones((1, 4), np.float32)}
    write(
        tmp_path / "m.onnx",
        [node],
        {"x": ("FLOAT", ["n", 4]), "c": ("FLOAT", [1, 4])},
        {"y": ("FLOAT", ["n", 4])},
        constants,
    )
    assert list(read_signature(tmp_path / "m.onnx").inputs) == ["x"]


def test_which_file_it_is(tmp_path: Path) -> None:
    assert onnx_file(tmp_path) is None
    write_dense(tmp_path / "net.onnx")
    assert onnx_file(tmp_path) == tmp_path / "net.onnx"
    write_dense(tmp_path / "other.onnx")
    assert onnx_file(tmp_path) is None
    assert "MODEL_DIR/NAME/1/model.onnx is served" in str(version_problem(tmp_path, "m", 1))
    write_dense(tmp_path / "model.onnx")
    assert onnx_file(tmp_path) == tmp_path / "model.onnx"
    (tmp_path / "saved_model.pb").touch()
    assert onnx_file(tmp_path) is None


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    """Wherever it is cut, and whatever it is instead."""
    file = tmp_path / "model.onnx"
    write_dense(file)
    whole = file.read_bytes()
    assert version_problem(tmp_path, "m", 1) is None
    assert list(signatures_of(tmp_path, "m", 1)["serving_default"].inputs) == ["x"]
    saved_model = (GOLDEN / "half_plus_two" / "1" / "saved_model.pb").read_bytes()
    for content in (b"", b"garbage" * 10, saved_model, *(whole[:size] for size in range(1, len(whole) - 5, 7))):
        file.write_bytes(content)
        assert str(version_problem(tmp_path, "m", 1)).startswith(f"{file} is not an ONNX model, or is damaged: ")
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    assert "pointer of git-lfs" in str(version_problem(tmp_path, "m", 1))
