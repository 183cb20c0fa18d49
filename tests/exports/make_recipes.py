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
from ultralytics.nn import tasks

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


# A drawn detector makes much of a level of 255, in which OpenCV rounds otherwise: most pictures are not resized.
FITTING = [f"{name} 128x96" for name in SIZES]
OF_ULTRALYTICS: tuple[tuple[str, str, str, dict[str, Any], list[str]], ...] = (
    ("ultralytics_detect", "yolo11", "detect", {"imgsz": (96, 128)}, FITTING),
    ("ultralytics_dynamic", "yolo11", "detect", {"imgsz": 96, "dynamic": True}, ["wide 640x300"]),
    ("ultralytics_classify", "yolo11", "classify", {"imgsz": 64}, list(SIZES)),
    ("ultralytics_segment", "yolo26", "segment", {"imgsz": (96, 128)}, [*FITTING[:3], "wide 128x60", "tall 71x96"]),
    ("ultralytics_pose", "yolo26", "pose", {"imgsz": (96, 128)}, [*FITTING[:3], "wide 128x60"]),
    ("ultralytics_obb", "yolo26", "obb", {"imgsz": (96, 128)}, [*FITTING[:3], "wide 128x60"]),
    ("ultralytics_end_to_end", "yolo26", "pose", {"imgsz": (96, 128), "nms": False}, [*FITTING[:3], "wide 128x60"]),
    ("ultralytics_nms", "yolo26", "obb", {"imgsz": (96, 128), "nms": True, "batch": 2}, FITTING[:2]),
    ("ultralytics_half", "yolo26", "segment", {"imgsz": (96, 128), "quantize": 16}, FITTING[:2]),
)
"""Name, network, task, arguments of ``export``, and the pictures to predict."""
KINDS = {
    "detect": ("", tasks.DetectionModel),
    "classify": ("-cls", tasks.ClassificationModel),
    "segment": ("-seg", tasks.SegmentationModel),
    "pose": ("-pose", tasks.PoseModel),
    "obb": ("-obb", tasks.OBBModel),
}


def of_ultralytics() -> dict[str, dict[str, Any]]:
    """Export Ultralytics' networks, the smallest width; return what ``predict`` answers."""
    answers = {}
    for name, network, task, options, pictures in OF_ULTRALYTICS:
        torch.manual_seed(SEED)
        suffix, kind = KINDS[task]
        described = {**_yaml(f"{network}{suffix}.yaml"), "nc": 5}
        described |= {"scales": {"n": [0.33, 0.0625, 64]}, "scale": "n", "yaml_file": f"{name}.yaml"}
        if task == "pose":
            described["kpt_shape"] = [4, 3]
        model = ultralytics.YOLO(f"{network}n{suffix}.yaml", task=task)
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
        many = options.get("batch", 1)
        answers[name] = {
            one: _of_result(asked.predict([picture(one)] * many, verbose=False, retina_masks=True)[0])
            for one in pictures
        }
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
        for before in ("", "one2one_"):  # the branches before suppression, and those of an end-to-end answer
            for level, branch in enumerate(getattr(head, f"{before}cv3", None) or ()):
                last, logits = branch[-1], _seen(network, branch)
                share = SPREAD / logits.std()
                last.weight.mul_(share)
                last.bias.copy_((last.bias - logits.mean()) * share + USUAL - level * 0.5)
            further = "cv4_kpts" if hasattr(head, "cv4_kpts") else "cv4"  # keypoints, angles, coefficients of masks
            for branch in getattr(head, f"{before}{further}", None) or ():
                last = branch[-1] if isinstance(branch, nn.Sequential) else branch
                last.weight.mul_(2 / _seen(network, branch).std())


def _seen(network: Any, branch: nn.Module) -> torch.Tensor:
    """Return what a part of a network gives for the pictures."""
    seen: list[torch.Tensor] = []
    hook = branch.register_forward_hook(lambda *found: seen.append(found[2]))
    for name in SIZES:
        network(tensor(name, 128, 96))
    hook.remove()
    return torch.cat([one.flatten(2) for one in seen], dim=2)


def _of_result(result: Any) -> Any:
    if result.probs is not None:
        return [[int(one), float(score)] for one, score in zip(result.probs.top5, result.probs.top5conf, strict=True)]
    boxes = result.boxes if result.obb is None else result.obb
    more: list[dict[str, Any]] = [{} for _ in boxes.cls]
    for number, parts in enumerate(more):
        if result.keypoints is not None:
            parts["keypoints"] = result.keypoints.data[number].tolist()
        if result.obb is not None:
            parts["corners"] = result.obb.xyxyxyxy[number].tolist()
        if result.masks is not None:
            parts["counts"] = _counts(result.masks.data[number].numpy())
    rows = zip(boxes.cls.tolist(), boxes.conf.tolist(), boxes.xyxy.tolist(), more, strict=True)
    found = [[int(number), score, box, *([parts] if parts else [])] for number, score, box, parts in rows]
    height, width = result.orig_shape  # Lightbox returns no object that is in the padding alone
    return [
        one for one in found if max(one[2][0], 0) < min(one[2][2], width) and max(one[2][1], 0) < min(one[2][3], height)
    ]


def _counts(mask: Any) -> list[int]:
    """Return COCO's run lengths of a mask."""
    pixels = mask.T.ravel().astype(bool)
    ends = np.flatnonzero(np.diff(pixels, prepend=False))
    return [int(length) for length in np.diff(ends, prepend=0, append=len(pixels))]


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
