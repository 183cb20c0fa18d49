"""OpenVINO with formats other than SavedModel: results equal the runtime's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from onnx import helper

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.wire.status import Code, StatusError
from support.model_files import FILES, FILES_OF_TESTS, dense, write_dense_as
from support.onnx_models import write


def opened(folder: Path) -> Runner:
    return named("openvino").open(str(folder), OpenOptions(Hardware(1, 1), ("serve",))).runner


def direct(file: Path, *inputs: Array) -> Array:
    model = openvino.Core().compile_model(str(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(model(list(inputs))[0])


def answer(runner: Runner, **inputs: Array) -> Array:
    signature = runner.signatures["serving_default"]
    feeds = {info.name: inputs[name] for name, info in signature.inputs.items()}
    (found,) = runner.run(feeds, [info.name for info in signature.outputs.values()])
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_network(tmp_path: Path, name: str) -> None:
    write_dense_as(tmp_path / name)
    for rows in (1, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        found = answer(opened(tmp_path), x=given)
        np.testing.assert_array_equal(found, direct(tmp_path / name, given))
        np.testing.assert_allclose(found, dense(given), rtol=1e-5)


def test_one_row_and_a_batch_have_models_of_their_own(tmp_path: Path) -> None:
    """The second is compiled when it is needed; rows give the same results in both, in any order of calls."""
    write_dense_as(tmp_path / "model.onnx")
    given = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)
    for first in (1, 5):
        runner = opened(tmp_path)
        batches = [answer(runner, x=given[:first]), answer(runner, x=given), answer(runner, x=given[:1])]
        for found in batches:
            np.testing.assert_array_equal(
                found, np.concatenate([answer(runner, x=row[None]) for row in given])[: len(found)]
            )


def test_a_model_that_is_gone_still_answers(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "model.onnx")
    runner, given = opened(tmp_path), np.ones((2, 4), np.float32)
    (tmp_path / "model.onnx").unlink()
    for rows in (2, 1):
        np.testing.assert_allclose(answer(runner, x=given[:rows]), dense(given[:rows]), rtol=1e-5)


def test_a_graph_that_takes_no_single_row(tmp_path: Path) -> None:
    write_pairs(tmp_path / "model.onnx")
    given = np.arange(16, dtype=np.float32).reshape(4, 4)
    runner = opened(tmp_path)
    np.testing.assert_array_equal(answer(runner, x=given), given.reshape(-1, 8))
    with pytest.raises(StatusError, match=r"expected inputs of sizes that the model takes, got x \[1, 4\]"):
        answer(runner, x=given[:1])
    np.testing.assert_array_equal(answer(runner, x=given[:2]), given[:2].reshape(-1, 8))


def test_a_litert_file_of_one_row_takes_as_many_as_a_request_has(tmp_path: Path) -> None:
    """``dense.tflite`` without its open sizes, as older converters wrote files."""
    shutil.copy(FILES_OF_TESTS / "one_row.tflite", tmp_path / "model.tflite")
    runner = opened(tmp_path)
    rows = np.random.default_rng(0).random((3, 4), np.float32)
    np.testing.assert_allclose(answer(runner, x=rows), dense(rows), rtol=1e-5)
    np.testing.assert_allclose(answer(runner, x=rows[:1]), dense(rows[:1]), rtol=1e-5)


def write_pairs(file: Path) -> None:
    """Write a graph that joins each two rows."""
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    tensors: tuple[Any, Any] = {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["m", 8])}
    write(file, [node], *tensors, {"sizes": np.array([-1, 8])})


def test_tensors_without_names_are_called_as_their_layers(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_text()
    bare = re.sub(r' (names|output_names)="[^"]*"', "", text)
    assert bare != text
    (tmp_path / "model.xml").write_text(bare)
    runner = opened(tmp_path)
    given = np.ones((1, 4), np.float32)
    assert list(runner.signatures["serving_default"].inputs) == ["x"]
    np.testing.assert_allclose(answer(runner, x=given), dense(given), rtol=1e-5)


def test_different_numbers_of_rows_are_no_business_of_tensorflows(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "at"], ["y"], axis=0)
    inputs: dict[str, tuple[str, list[int | str]]] = {"x": ("FLOAT", ["n"]), "at": ("INT64", ["m"])}
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("FLOAT", ["m"])})
    given: dict[str, Array] = {"x": np.array([1, 2, 3], np.float32), "at": np.array([2, 0], np.int64)}
    np.testing.assert_array_equal(
        opened(tmp_path).run(given, ["y"])[0], direct(tmp_path / "model.onnx", *given.values())
    )


def test_strings_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    write(tmp_path / "model.onnx", [node], {"x": ("STRING", ["n"])}, {"y": ("STRING", ["n"])})
    with pytest.raises(StatusError, match=r"'x' of .*/model.onnx holds strings") as raised:
        opened(tmp_path)
    assert raised.value.code == Code.INVALID_ARGUMENT
