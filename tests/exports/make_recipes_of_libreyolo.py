"""Write what libreyolo's exporter writes into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_libreyolo.py [NAME ...]

It runs after make_recipes.py, in the same environment. Networks are narrow, their weights are drawn from a seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import libreyolo
import numpy as np
import torch
from libreyolo.models.rfdetr import backbone
from libreyolo.models.rfdetr import nn as rfdetr
from libreyolo.models.rtmdet import nn as rtmdet
from libreyolo.models.yolo9 import nn as yolo9
from libreyolo.models.yolox import nn as yolox
from torch import nn

from pixels.pictures import PHOTOS, SIZES, picture, upright

HERE = Path(__file__).parent / "recipes"
SEED, CLASSES, SIDE = 20261129, 4, 96
SPREAD, USUAL, OBJECTS = 1.0, -2.5, 8
"""Standard deviation and mean of the logits of objects, and how many of each class and level are found."""


def narrowed() -> None:
    """Give the smallest size of each network fewer channels."""
    yolox.LibreYOLOXModel.CONFIGS["n"] = {"depth": 0.33, "width": 1 / 32, "depthwise": True}
    rtmdet._SIZE_CONFIG["t"] = (0.167, 1 / 32, [8, 16, 32], 8, 1, False)
    yolo9.YOLO9_CONFIGS["t"] = dict(_narrow(yolo9.YOLO9_CONFIGS["t"].items()), repeat_num=1)
    size = {"hidden_dim": 16, "sa_nheads": 2, "ca_nheads": 2, "dec_layers": 1, "out_feature_indexes": (1, 2)}
    size |= {"resolution": 64, "patch_size": 8, "positional_encoding_size": 8}
    # As many queries as anchors: of those that a few are chosen from, rounding may choose others.
    rfdetr.RFDETR_CONFIGS["n"] = replace(rfdetr.RFDETR_CONFIGS["n"], **size, num_queries=64, num_select=64)
    of_encoder, of_size = backbone.get_config, rfdetr._make_args
    narrow = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "mlp_ratio": 1}
    backbone.get_config = lambda *given: of_encoder(*given) | narrow
    backbone.size_to_width["small"] = 16

    def arguments(*given: Any, **named: Any) -> Any:
        vars(made := of_size(*given, **named)).update(dim_feedforward=16, group_detr=1, vit_encoder_num_layers=2)
        return made

    rfdetr._make_args = arguments


def _narrow(options: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for key, value in options:
        yield key, np.floor_divide(value, 8).tolist() if not isinstance(value, str) else value


def seen(network: nn.Module, part: nn.Module, pixels: list[torch.Tensor]) -> torch.Tensor:
    """Return what a part of a network gives for pictures."""
    found: list[torch.Tensor] = []
    hook = part.register_forward_hook(lambda *given: found.append(given[2]))
    with torch.no_grad():
        for one in pixels:
            network(one)
    hook.remove()
    return torch.cat([one.flatten(2) for one in found], dim=2)


def spread(network: nn.Module, last: Any, pixels: list[torch.Tensor], spread: float, usual: float) -> None:
    """Let what a convolution gives have a standard deviation and a mean."""
    given = seen(network, last, pixels)
    with torch.no_grad():
        share = spread / given.std()
        last.weight.mul_(share)
        last.bias.copy_((last.bias - given.mean()) * share + usual)


def spread_classes(network: nn.Module, last: Any, pixels: list[torch.Tensor]) -> None:
    """Let what a convolution gives be the logits of few objects of each class."""
    given = seen(network, last, pixels)[0]
    with torch.no_grad():
        share = SPREAD / given.std(dim=1)
        last.weight.mul_(share[:, None, None, None])
        last.bias.copy_((last.bias - given.topk(OBJECTS, dim=1).values[:, -1]) * share - 1)


def of_yolox(network: Any, pixels: list[torch.Tensor]) -> None:
    for level in range(3):
        spread(network, network.head.cls_preds[level], pixels, SPREAD, 1)
        spread(network, network.head.obj_preds[level], pixels, SPREAD, USUAL)
        spread(network, network.head.reg_preds[level], pixels, 0.4, 0.6)


def of_rtmdet(network: Any, pixels: list[torch.Tensor]) -> None:
    for level in range(3):
        spread_classes(network, network.head.rtm_cls[level], pixels)
        spread(network, network.head.rtm_reg[level], pixels, 0.4, 1.5)


def of_yolo9(network: Any, pixels: list[torch.Tensor]) -> None:
    for level in range(3):
        spread_classes(network, network.head.cv3[level][-1], pixels)
        spread(network, network.head.cv2[level][-1], pixels, 1, 0)


def of_rfdetr(network: Any, pixels: list[torch.Tensor]) -> None:
    parts = dict(network.named_modules())
    (inner,) = (part for part in parts.values() if hasattr(part, "refpoint_embed"))
    with torch.no_grad():  # its queries are learned for ranks of anchors, which rounding changes
        for learned in (inner.query_feat.weight, inner.refpoint_embed.weight):
            learned.copy_(learned[:1].expand_as(learned))
        logits = seen(network, inner.class_embed, pixels).reshape(-1, inner.class_embed.out_features)
        share = 2 / logits.std(dim=0)
        inner.class_embed.weight.mul_(share[:, None])
        inner.class_embed.bias.copy_((inner.class_embed.bias - logits.mean(dim=0)) * share - 4)
        inner.class_embed.bias[CLASSES:] = -20  # of a class without a name, which training leaves to no object


NETWORKS: dict[str, tuple[type, dict[str, Any], Callable[[Any, list[torch.Tensor]], None], Any]] = {
    "libreyolo_yolox": (libreyolo.LibreYOLOX, {"size": "n"}, of_yolox, SIDE),
    "libreyolo_rtmdet": (libreyolo.LibreRTMDet, {"size": "t"}, of_rtmdet, SIDE),
    "libreyolo_yolo9": (libreyolo.LibreYOLO9, {"size": "t", "reg_max": 4}, of_yolo9, (96, 128)),
    "libreyolo_yolo9_center": (libreyolo.LibreYOLO9, {"size": "t", "reg_max": 4}, of_yolo9, (96, 128)),
    "libreyolo_rfdetr": (libreyolo.LibreRFDETR, {"size": "n"}, of_rfdetr, 64),
}
"""The class, its arguments, how its answers are spread, and the sides of the input."""


def exported(name: str) -> None:
    """Export a network."""
    kind, arguments, spread_all, sides = NETWORKS[name]
    torch.manual_seed(SEED)
    nothing: Any = {} if name == "libreyolo_rfdetr" else None  # None would have its weights loaded
    model = kind(nothing, **arguments, nb_classes=CLASSES, device="cpu")
    model.names = {number: f"thing {number}" for number in range(CLASSES)}
    if name.endswith("_center"):
        model.letterbox_pad = "center"
    network = model.model
    shown = [picture(one) for one in SIZES]
    if name == "libreyolo_rtmdet":  # of objects whose scores all round to 1, it is open which one remains
        shown += [upright(one) for one in PHOTOS]
    pixels = [model._preprocess(one, input_size=sides)[0] for one in shown]
    network.eval()
    for part in network.modules():  # BatchNorm gets the statistics of the pictures
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
            part.train().reset_running_stats()
    with torch.no_grad():
        network(torch.cat(pixels))
    network.eval()
    spread_all(network, pixels)
    file = HERE / name / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    model.export(format="onnx", output_path=str(file), imgsz=sides, simplify=False, opset=17)


if __name__ == "__main__":
    narrowed()
    for name in sys.argv[1:] or NETWORKS:
        exported(name)
