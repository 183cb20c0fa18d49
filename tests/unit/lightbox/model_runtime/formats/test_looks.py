"""Files that are read without their weights."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from lightbox.model_runtime.formats import as_model_file
from lightbox.model_runtime.wire.protobuf import delimited
from support.model_files import write_dense_as


@pytest.mark.parametrize("name", ["model.onnx", "model.tflite"])
def test_weights_are_not_read(tmp_path: Path, name: str) -> None:
    write_dense_as(tmp_path / name)
    with (tmp_path / name).open("ab") as file:
        # For ONNX this is an unknown field; for LiteRT it is trailing data after the tables.
        file.write(delimited(15, bytes(1 << 24)))
    found = as_model_file(tmp_path / name)
    assert found is not None
    found.signature()
    tracemalloc.start()
    found.signature()
    (_, peak) = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
