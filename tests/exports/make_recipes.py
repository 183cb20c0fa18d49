"""Write what libraries export with their own exporters, recipes/NAME/, and what they answer: recipes/expected.json.

    PYTHONPATH=tests python tests/exports/make_recipes.py

It runs in an environment of its own, with requirements/recipes.in. The files are committed: tests need none of these
libraries, of which Ultralytics is under the AGPL, and nothing of them is copied. Weights are drawn from a seed. What
follows a network's last layer is scaled so that its scores differ.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import transformers
import ultralytics
from timm.data import create_transform, resolve_data_config
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from pixels.pictures import SIZES, picture

HERE = Path(__file__).parent / "recipes"
SEED = 20261129
SPREAD, USUAL = 1.5, -7
"""Standard deviation and mean of the logits of a detector's classes: some thousandths of them are objects."""


def tensor(name: str, width: int, height: int) -> torch.Tensor:
    """Return a picture as [1, 3, height, width], 0..1."""
    pixels = np.asarray(picture(name).resize((width, height)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255


def measured(network: nn.Module, width: int, height: int) -> None:
    """Give BatchNorm the statistics of the pictures."""
    network.train()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
            part.reset_running_stats()
    with torch.no_grad():
        network(torch.cat([tensor(name, width, height) for name in SIZES]))
    network.eval()


def of_ultralytics() -> dict[str, dict[str, Any]]:
    """Export Ultralytics' networks, the smallest width; return what ``predict`` answers."""
    answers = {}
    # A drawn detector makes much of a level of 255, in which OpenCV rounds otherwise: these pictures are not resized.
    fitting = [f"{name} 128x96" for name in SIZES]
    for name, task, options, pictures in (
        ("ultralytics_detect", "detect", {"imgsz": (96, 128)}, fitting),
        ("ultralytics_dynamic", "detect", {"imgsz": 96, "dynamic": True}, ["wide 640x300"]),
        ("ultralytics_classify", "classify", {"imgsz": 64}, SIZES),
    ):
        torch.manual_seed(SEED)
        described = {**_yaml("yolo11-cls.yaml" if task == "classify" else "yolo11.yaml"), "nc": 5}
        described |= {"scales": {"n": [0.33, 0.0625, 64]}, "scale": "n", "yaml_file": f"{name}.yaml"}
        model = ultralytics.YOLO("yolo11n-cls.yaml" if task == "classify" else "yolo11n.yaml", task=task)
        kind = ultralytics.nn.tasks.ClassificationModel if task == "classify" else ultralytics.nn.tasks.DetectionModel
        arguments = model.model.args
        model.model = kind(described, ch=3, nc=5, verbose=False)
        model.model.args, model.model.task = arguments, task
        model.model.names = {number: f"thing {number}" for number in range(5)}
        measured(model.model, 128, 96)
        _spread(model.model, task)
        model.ckpt = {}
        file = Path(model.export(format="onnx", opset=17, simplify=False, **options))
        place = HERE / name / "model.onnx"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, place)
        asked = ultralytics.YOLO(str(place), task=task)
        answers[name] = {one: _of_result(asked.predict(picture(one), verbose=False)[0]) for one in pictures}
    return answers


def _yaml(name: str) -> dict[str, Any]:
    return dict(ultralytics.utils.YAML.load(ultralytics.utils.checks.check_yaml(name)))


def _spread(network: Any, task: str) -> None:
    head = network.model[-1]
    with torch.no_grad():
        if task == "classify":
            head.linear.weight.mul_(30)
            return
        network.eval()
        for level, branch in enumerate(head.cv3):
            seen: list[torch.Tensor] = []
            hook = branch[-1].register_forward_hook(lambda *found, seen=seen: seen.append(found[2]))
            for name in SIZES:
                network(tensor(name, 128, 96))
            hook.remove()
            logits = torch.cat([one.flatten(2) for one in seen], dim=2)
            last, spread = branch[-1], logits.std()
            last.weight.mul_(SPREAD / spread)
            last.bias.copy_((last.bias - logits.mean()) * SPREAD / spread + USUAL - level * 0.5)


def _of_result(result: Any) -> Any:
    if result.probs is not None:
        return [[int(one), float(score)] for one, score in zip(result.probs.top5, result.probs.top5conf, strict=True)]
    boxes = result.boxes
    rows = zip(boxes.cls.tolist(), boxes.conf.tolist(), boxes.xyxy.tolist(), strict=True)
    return [[int(number), score, box] for number, score, box in rows]


def of_timm() -> dict[str, dict[str, Any]]:
    """Export a ResNet with timm's configuration beside it; return the softmax of its logits."""
    torch.manual_seed(SEED)
    pixels = {
        "input_size": (3, 64, 64),
        "interpolation": "bicubic",
        "crop_pct": 0.95,
        "crop_mode": "center",
        "mean": (0.48, 0.46, 0.41),
        "std": (0.27, 0.26, 0.28),
    }
    network = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=6, channels=(8, 12, 16, 24), stem_width=8).eval()
    with torch.no_grad():
        network.fc.weight.mul_(40)
    place = HERE / "timm_resnet"
    _export(network, place, (3, 64, 64), "input", "output")
    names = [f"kind {number}" for number in range(6)]
    config = {"architecture": "resnet", "num_classes": 6, "pretrained_cfg": pixels, "label_names": names}
    (place / "config.json").write_text(json.dumps(config, indent=1))
    transform = create_transform(**resolve_data_config({}, pretrained_cfg=pixels))
    return {"timm_resnet": {one: _best(network(transform(picture(one))[None])) for one in SIZES}}


class _Logits(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return self.network(pixel_values=pixel_values).logits


def of_transformers() -> dict[str, dict[str, Any]]:
    """Export classifiers of transformers with their processors beside them; return the softmax of their logits."""
    torch.manual_seed(SEED)
    vit = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=64, num_labels=6
    )
    convnext = transformers.ConvNextConfig(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], num_labels=6)
    answers = {}
    for name, network, processor in (
        (
            "transformers_vit",
            transformers.ViTForImageClassification(vit),
            transformers.ViTImageProcessor(size={"height": 64, "width": 64}),
        ),
        (
            "transformers_convnext",
            transformers.ConvNextForImageClassification(convnext),
            transformers.ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.9),
        ),
    ):
        network.eval()
        with torch.no_grad():
            network.classifier.weight.mul_(30)
        network.config.id2label = {number: f"kind {number}" for number in range(6)}
        network.config.architectures = [type(network).__name__]
        place = HERE / name
        logits = _Logits(network).eval()
        _export(logits, place, (3, 64, 64), "pixel_values", "logits")
        network.config.save_pretrained(place)
        processor.save_pretrained(place)
        answers[name] = {
            one: _best(logits(processor(picture(one), return_tensors="pt")["pixel_values"])) for one in SIZES
        }
    return answers


def _export(network: nn.Module, place: Path, shape: tuple[int, ...], taken: str, given: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        network,
        (torch.zeros(1, *shape),),
        str(place / "model.onnx"),
        input_names=[taken],
        output_names=[given],
        opset_version=17,
        dynamo=False,
    )


def _best(logits: torch.Tensor) -> list[list[float]]:
    scores, classes = logits.detach()[0].softmax(0).topk(5)
    return [[int(number), float(score)] for number, score in zip(classes, scores, strict=True)]


if __name__ == "__main__":
    os.chdir(HERE.parent)
    HERE.mkdir(exist_ok=True)
    versions = {module.__name__: module.__version__ for module in (timm, torch, transformers, ultralytics)}
    found = {**of_ultralytics(), **of_timm(), **of_transformers()}
    (HERE / "expected.json").write_text(json.dumps({"versions": versions, "answers": found}) + "\n")
