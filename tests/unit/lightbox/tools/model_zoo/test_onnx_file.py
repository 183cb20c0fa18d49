"""EfficientNet-Lite0 as an ONNX file."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from PIL import Image

from lightbox.cli import main


@pytest.mark.extended
def test_without_tensorflow_it_is_an_onnx_file_with_the_same_results(
    sample_models: Path, predict: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, photo: bytes
) -> None:
    monkeypatch.setattr("lightbox.tools.model_zoo.command.find_spec", lambda name: None)
    pixels = np.asarray(Image.open(BytesIO(photo)).resize((224, 224)))[None].repeat(2, axis=0)
    expected = predict(sample_models / "efficientnet_lite0", pixels)["probabilities"]
    for form in ("uint8", "float32"):
        assert main(["export", "efficientnet_lite0", "--input", form, str(tmp_path / form)]) == 0
        file = tmp_path / form / "1" / "model.onnx"
        onnx.checker.check_model(onnx.load(file), full_check=True)
        network = openvino.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        (found,) = network([pixels.astype(form)]).values()
        np.testing.assert_allclose(found, expected, atol=1e-5)
        for name in ("lightbox.json", "labels.txt"):
            code = sample_models / "efficientnet_lite0" / "code" / name
            assert (tmp_path / form / "code" / name).read_bytes() == code.read_bytes()
    assert main(["export", "efficientnet_lite0", str(tmp_path / "uint8")]) == 1, "version 1 exists"
    assert main(["export", "digits", "--format", "onnx", str(tmp_path / "digits")]) == 2
