"""Models written by exporters, in ONNX, OpenVINO IR and LiteRT: one file each, ``<name>/1/model.<format>``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightbox.tools.model_zoo.export import quiet_tensorflow
from support.made_models import made
from support.samples import sample_models
from support.stack import REPOSITORY

SEED = 20180113
TORCH = REPOSITORY / "tests" / "exports"
OCR = {
    "ocr_detect": "ch_PP-OCRv4_det_infer",
    "ocr_turn": "ch_ppocr_mobile_v2.0_cls_infer",
    "ocr_read": "ch_PP-OCRv4_rec_infer",
}
"""The networks of rapidocr-onnxruntime, exported from PaddlePaddle; the sides of their images are open."""
FORMATS = {"onnx": "onnx", "openvino": "xml", "litert": "tflite"}
"""The end of a file's name by the format, which is called as Keras calls it."""
_MAKERS = (
    "container/lightbox/tools/model_zoo",
    "scripts/sample_models.py",
    "tests/exports",
    "tests/support/exports.py",
    "requirements/dev.lock",
)


@dataclass(frozen=True)
class Export:
    """A model with one input of any number of rows."""

    row: tuple[int, ...]
    """The shape of a row, with sides that fit where the file leaves them open."""
    format: str = "onnx"
    dtype: type[np.generic] = np.float32

    def given(self, rows: int) -> npt.NDArray[Any]:
        """Return a random input from a seed: normally distributed, or uniform bytes."""
        drawn = np.random.default_rng(SEED + rows)
        shape = (rows, *self.row)
        if self.dtype is np.uint8:
            return drawn.integers(0, 256, shape, np.uint8)
        return drawn.standard_normal(shape, np.float32)


EXPORTS = {
    "resnet": Export((3, 64, 64)),
    "mobilenet_v3": Export((3, 64, 64)),
    "yolo": Export((3, 64, 64)),
    "ocr_detect": Export((3, 64, 96)),
    "ocr_turn": Export((3, 48, 192)),
    "ocr_read": Export((3, 48, 96)),
    **{f"keras_{one}": Export((32, 32, 3), one) for one in FORMATS},
    **{f"efficientnet_lite0_{one}": Export((224, 224, 3), one, np.uint8) for one in FORMATS},
}


def exported_models() -> Path:
    """Return the folder of all ``EXPORTS``, made once."""
    return made("exports", _make, _MAKERS)


def file_of(name: str) -> Path:
    """Return a model's file."""
    return exported_models() / name / "1" / f"model.{FORMATS[EXPORTS[name].format]}"


def _make(folder: Path) -> None:
    files = {name: folder / name / "1" / f"model.{FORMATS[one.format]}" for name, one in EXPORTS.items()}
    for file in files.values():
        file.parent.mkdir(parents=True)
    for name in ("resnet", "mobilenet_v3", "yolo"):
        shutil.copy(TORCH / name / "1" / "model.onnx", files[name])
    spec = find_spec("rapidocr_onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    for name, network in OCR.items():
        shutil.copy(Path(spec.origin).parent / "models" / f"{network}.onnx", files[name])
    network = _keras_network()
    for one in FORMATS:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # it uses names that numpy removed
            network.export(str(files[f"keras_{one}"]), format=one, verbose=False)
    saved_model = sample_models() / "efficientnet_lite0" / "1"
    _convert(saved_model, {one: files[f"efficientnet_lite0_{one}"] for one in FORMATS})


def _keras_network() -> Any:
    """Return a small network for images of 32 by 32 pixels, its weights drawn from a seed."""
    quiet_tensorflow()
    import keras
    from keras import layers

    keras.utils.set_random_seed(SEED)
    x = image = keras.Input((32, 32, 3), name="image")
    for channels in (8, 16):
        x = layers.Conv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("silu")(x)
    x = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.GlobalAveragePooling2D()(x)
    network = keras.Model(image, layers.Dense(10, activation="softmax", name="scores")(x))
    network(np.zeros((1, 32, 32, 3), np.float32))  # the export to ONNX requires a network that has been called
    return network


def _convert(saved_model: Path, files: dict[str, Path]) -> None:
    """Convert a SavedModel with each format's own converter."""
    import openvino
    import tensorflow

    converted = openvino.convert_model(saved_model)
    openvino.save_model(converted, files["openvino"], compress_to_fp16=False)
    converter = tensorflow.lite.TFLiteConverter.from_saved_model(str(saved_model))
    files["litert"].write_bytes(converter.convert())
    command = [sys.executable, "-m", "tf2onnx.convert", "--opset", "18"]
    subprocess.run([*command, "--saved-model", saved_model, "--output", files["onnx"]], check=True, capture_output=True)
