"""ONNX files in OpenVINO: nothing but the runtime's own answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import pytest
from onnx import helper

from lightbox.engines.base import Array, Runner
from lightbox.engines.engine import OpenOptions, named
from lightbox.engines.hardware import Hardware
from support.onnx_models import write, write_dense
from tfs_wire.status import Code, StatusError


def opened(folder: Path) -> Runner:
    return named("openvino").open(str(folder), OpenOptions(Hardware(1, 1), ("serve",))).runner


def direct(folder: Path, **inputs: Array) -> Array:
    properties = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(folder / "model.onnx"), "CPU", properties)
    return np.array(model(inputs)[0])


def test_a_network(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    given = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(opened(tmp_path).run({"x": given}, ["y"])[0], direct(tmp_path, x=given))


def test_positions_out_of_range_are_no_business_of_tensorflows(tmp_path: Path) -> None:
    """Nor are inputs with different numbers of rows."""
    node = helper.make_node("Gather", ["x", "at"], ["y"], axis=0)
    inputs: dict[str, tuple[str, list[int | str]]] = {"x": ("FLOAT", ["n"]), "at": ("INT64", ["m"])}
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("FLOAT", ["m"])})
    given: dict[str, Array] = {"x": np.array([1, 2, 3], np.float32), "at": np.array([2, 9], np.int64)}
    np.testing.assert_array_equal(opened(tmp_path).run(given, ["y"])[0], direct(tmp_path, **given))


def test_strings_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    write(tmp_path / "model.onnx", [node], {"x": ("STRING", ["n"])}, {"y": ("STRING", ["n"])})
    with pytest.raises(StatusError, match=r"'x' of .*/model.onnx holds strings") as raised:
        opened(tmp_path)
    assert raised.value.code == Code.INVALID_ARGUMENT
