"""Signatures of LiteRT files."""

from __future__ import annotations

import shutil
from pathlib import Path

from lightbox.model_files.checks import version_problem
from lightbox.model_runtime.formats import model_file
from support.model_files import FILES_OF_TESTS, write_dense_as


def test_litert_without_a_signature_has_its_tensors_names(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    write_dense_as(file)
    content = bytearray(file.read_bytes())
    root = int.from_bytes(content[:4], "little")
    layout = root - int.from_bytes(content[root : root + 4], "little", signed=True)
    content[layout + 4 + 2 * 7 : layout + 4 + 2 * 7 + 2] = bytes(2)  # removes the signatures field
    file.write_bytes(content)
    found = model_file(tmp_path)
    assert found is not None
    inputs, outputs, _ = found.signature()
    assert (list(inputs), list(outputs)) == (["serving_default_x:0"], ["PartitionedCall:0"])


def test_litert_with_a_signature_of_2020_has_its_names(tmp_path: Path) -> None:
    """As tensorflow/lite/tools/signature/signature_def_util writes it: ``dense.tflite`` with other names."""
    content = (FILES_OF_TESTS / "old_signature.tflite").read_bytes()
    (tmp_path / "model.tflite").write_bytes(content)
    found = model_file(tmp_path)
    assert found is not None
    inputs, outputs, _ = found.signature()
    assert {name: tensor.name for name, tensor in inputs.items()} == {"pixels": "serving_default_x:0"}
    assert {name: tensor.name for name, tensor in outputs.items()} == {"scores": "PartitionedCall:0"}
    (tmp_path / "model.tflite").write_bytes(content.replace(b"Call:0", b"Call:1", 1))
    assert "names a tensor 'PartitionedCall:" in str(version_problem(tmp_path, "m", 1))


def test_litert_whose_signature_is_of_another_subgraph_is_refused(tmp_path: Path) -> None:
    """TensorFlow 2.21's TFLiteConverter wrote the file, with signature_keys=["other", "serving_default"]."""
    shutil.copy(FILES_OF_TESTS / "two_signatures.tflite", tmp_path / "model.tflite")
    assert "its signature serving_default is not of the first subgraph" in str(version_problem(tmp_path, "m", 1))
