"""Names, dtypes and open sides in a file of each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_runtime.formats import as_model_file, platform
from support.model_files import FILES, write_dense_as

PLATFORMS = {"model.onnx": "onnx", "model.xml": "openvino_ir", "model.tflite": "litert"}


@pytest.mark.parametrize("name", FILES)
def test_names_dtypes_and_open_sides(tmp_path: Path, name: str) -> None:
    write_dense_as(tmp_path / name)
    found = as_model_file(tmp_path / name)
    assert found is not None
    inputs, outputs, _ = found.signature()
    assert [(name, tensor.dtype, tensor.shape) for name, tensor in inputs.items()] == [("x", 1, (None, 4))]
    assert [(name, tensor.dtype, tensor.shape) for name, tensor in outputs.items()] == [("y", 1, (None, 3))]
    assert platform(tmp_path) == PLATFORMS[name]
