"""Tensor names and dtypes of OpenVINO IR files, compared with the OpenVINO runtime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import openvino
import pytest
from openvino import opset13

from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.formats.openvino_ir import read_signature

FED = {"x": np.array([[-1, 2, -3, 4]], np.float32)}


def outputs(file: Path) -> dict[str, list[list[float]]]:
    runner = named("openvino").open(str(file), OpenOptions(Hardware(1, 1), ("serve",))).runner
    names = list(read_signature(file).outputs)
    return {name: array.tolist() for name, array in zip(names, runner.run(FED, names), strict=True)}


def test_outputs_that_are_the_same_tensor_have_names_of_their_own(tmp_path: Path) -> None:
    x = opset13.parameter([-1, 4], np.float32, name="x")
    positive = opset13.relu(x)
    model = openvino.Model([opset13.result(positive), opset13.result(positive)], [x])
    for port, name in zip(model.outputs, ("a,b", "c"), strict=True):
        port.set_names({name})
    openvino.save_model(model, tmp_path / "m.xml")
    assert outputs(tmp_path / "m.xml") == {name: [[0, 2, 0, 4]] for name in ("a,b", "c")}


def test_version_10_names_outputs_after_layers(tmp_path: Path) -> None:
    x = opset13.parameter([-1, 4], np.float32, name="x")
    halves = opset13.split(x, opset13.constant(1), 2, name="halves")
    model = openvino.Model([halves.output(0), halves.output(1), opset13.relu(x, name="positive").output(0)], [x])
    openvino.save_model(model, tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text()
    (tmp_path / "m.xml").write_text(re.sub(r'(<net [^>]*version=)"11"|( (?:output_)?names="[^"]*")', _older, text))
    expected = {"halves.0": [[-1, 2]], "halves.1": [[-3, 4]], "positive": [[0, 2, 0, 4]]}
    assert outputs(tmp_path / "m.xml") == expected


def _older(found: re.Match[str]) -> str:
    return f'{found[1]}"10"' if found[1] else ""


def test_a_dtype_that_numpy_has_not_is_refused(tmp_path: Path) -> None:
    x = opset13.parameter([-1], np.float32, name="x")
    openvino.save_model(openvino.Model([opset13.convert(x, "bf16")], [x]), tmp_path / "m.xml")
    with pytest.raises(ValueError, match="has the precision 'BF16', which cannot be served"):
        read_signature(tmp_path / "m.xml")
