"""Write networks that find anomalies into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_anomalies.py

anomalib exports one network, with thresholds in its graph; the other is as Geti writes it, with thresholds in the file.
It runs in the environment of make_recipes.py, with anomalib 2.7.0.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import numpy as np
import openvino
import torch
from anomalib.models import Padim
from openvino import opset13
from torchvision.transforms.v2 import Normalize, Resize

from exports.make_recipes import HERE, SEED
from pixels.pictures import picture

PICTURES = ("wide", "square", "long", "small", "tall 64x64")
SIZE = (64, 96)


def of_anomalib() -> Any:
    """Return PaDiM, fitted to pictures; half of them are anomalous."""
    torch.manual_seed(SEED)
    found = Padim("test_resnet", ["layer1", "layer2"], False, 8, evaluator=False, visualizer=False)
    found.pre_processor.export_transform.transforms = [
        Resize(list(SIZE), antialias=False),
        Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
    seen = torch.stack([_unit(name, SIZE) for name in PICTURES for _ in range(4)])
    found.model.train()
    found.model(seen + 0.05 * torch.randn(seen.shape))
    found.model.fit()
    found.eval()
    answer = found.model(found.pre_processor.export_transform(seen[::4]))
    state = found.post_processor
    for name, values in (("image", answer.pred_score), ("pixel", answer.anomaly_map)):
        getattr(state, f"_{name}_threshold").fill_(values.quantile(0.6))
        getattr(state, f"{name}_min").fill_(values.min())
        getattr(state, f"{name}_max").fill_(values.max())
    return found


def _unit(name: str, size: tuple[int, int]) -> torch.Tensor:
    pixels = np.asarray(picture(name).convert("RGB").resize(size[::-1]))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255


def exported() -> None:
    """Export it for images of any size."""
    place = HERE / "anomalib_padim"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in of_anomalib().to_onnx(folder).parent.iterdir():
            shutil.copy(part, place)


def as_geti() -> None:
    """Write a network that gives a map alone."""
    random, place = np.random.default_rng(SEED), HERE / "openvino_anomaly"
    image = opset13.parameter([1, 3, *SIZE], np.float32, name="image")
    image.output(0).set_names({"image"})
    weights = random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    found = opset13.convolution(image, weights, [8, 8], [0, 0], [0, 0], [1, 1])
    wide = opset13.interpolate(found, np.array(SIZE), "linear_onnx", "sizes", axes=np.array([2, 3]))
    wide.output(0).set_names({"anomaly"})
    network = openvino.Model([opset13.result(wide)], [image])
    info = {"model_type": "AnomalyDetection", "labels": "Good Broken", "image_threshold": "30", "pixel_threshold": "4"}
    info |= {"normalization_scale": "60", "mean_values": "123.675 116.28 103.53", "scale_values": "58.395 57.12 57.375"}
    for key, value in info.items():
        network.set_rt_info(value, ["model_info", key])
    place.mkdir(exist_ok=True)
    openvino.save_model(network, place / "model.xml", compress_to_fp16=False)


if __name__ == "__main__":
    exported()
    as_geti()
