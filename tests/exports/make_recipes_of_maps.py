"""Write exports of networks that give maps and embeddings into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_maps.py [of_timm ...]

It runs after make_recipes.py, in the same environment. Networks are narrow, their weights are drawn from a seed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import timm
import torch
import transformers
import ultralytics
from openvino import opset13
from timm.models.resnet import BasicBlock, ResNet
from torch import nn
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.segmentation import deeplabv3
from torchvision.transforms._presets import SemanticSegmentation
from ultralytics.nn import tasks

from exports.make_recipes import HERE, KINDS, SEED, _export, _yaml, measured, tensor
from pixels.pictures import SIZES, picture

CLASSES = 4
SIDE = 64
PICTURES = ("wide", "square", "long", "small", "tall 64x64")
KINDS |= {"semantic": ("-sem", tasks.SemanticSegmentationModel), "depth": ("-depth", tasks.DepthModel)}


class _Chosen(nn.Module):
    def __init__(self, network: Any, output: str) -> None:
        super().__init__()
        self.network, self.output = network, output

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return getattr(self.network(pixel_values=pixel_values), self.output)


def of_ultralytics() -> None:
    """Export maps of classes and of depths."""
    for task, size in (("semantic", (96, 128)), ("depth", (64, 96))):
        torch.manual_seed(SEED)
        name, (suffix, kind) = f"ultralytics_{task}", KINDS[task]
        described = {**_yaml(f"yolo26{suffix}.yaml"), "nc": CLASSES if task == "semantic" else 1}
        described |= {"scales": {"n": [0.33, 0.125, 192]}, "scale": "n", "yaml_file": f"{name}.yaml"}
        if task == "depth":
            described["head"][-1][-1] = [16]  # channels, which no scale narrows
        model = ultralytics.YOLO(f"yolo26n{suffix}.yaml", task=task)
        arguments = model.model.args
        model.model = kind(described, ch=3, nc=described["nc"], verbose=False)
        model.model.args, model.model.task = arguments, task
        model.model.names = {number: f"thing {number}" for number in range(described["nc"])}
        measured(model.model, [tensor(one, 128, 96) for one in SIZES])
        last = model.model.model[-1]
        convolutions = [part for part in last.modules() if isinstance(part, nn.Conv2d)]
        with torch.no_grad():
            last_one = last.classifier[-1] if task == "semantic" else convolutions[-1]
            last_one.weight.mul_(8 if task == "semantic" else 1)
        model.ckpt = {}
        file = Path(model.export(format="onnx", opset=17, simplify=False, imgsz=size))
        place = HERE / name / "model.onnx"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, place)


def of_transformers() -> None:
    """Export SegFormer, DPT and CLIP's half for pictures with their processors beside them."""
    torch.manual_seed(SEED)
    own, size = transformers, {"height": SIDE, "width": SIDE}
    segformer = own.SegformerConfig(
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        mlp_ratios=[1, 1, 1, 1],
        decoder_hidden_size=16,
        num_labels=CLASSES,
    )
    of_vit: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2}
    of_vit |= {"intermediate_size": 32, "image_size": SIDE, "patch_size": 16}
    dpt = own.DPTConfig(
        **of_vit,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        initializer_range=0.2,
        is_hybrid=False,
    )
    clip = own.CLIPVisionConfig(**of_vit, projection_dim=16)

    networks: tuple[tuple[str, Any, Any, str], ...] = (
        (
            "transformers_segformer",
            own.SegformerForSemanticSegmentation(segformer),
            own.SegformerImageProcessor(size=size),
            "logits",
        ),
        (
            "transformers_dpt",
            own.DPTForDepthEstimation(dpt),
            own.DPTImageProcessor(size=size),
            "predicted_depth",
        ),
        (
            "transformers_clip",
            own.CLIPVisionModelWithProjection(clip),
            own.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=size),
            "image_embeds",
        ),
    )
    for name, network, processor, output in networks:
        network.eval()
        with torch.no_grad():
            if name == "transformers_segformer":
                network.decode_head.classifier.weight.mul_(30)
                network.config.id2label = {number: f"kind {number}" for number in range(CLASSES)}
            network.config.architectures = [type(network).__name__]
            place = HERE / name
            _export(_Chosen(network, output).eval(), place, (3, SIDE, SIDE), "pixel_values", output)
            network.config.save_pretrained(place)
            processor.save_pretrained(place)


def of_timm() -> None:
    """Export a ResNet without a classifier, with timm's configuration beside it."""
    torch.manual_seed(SEED)
    pixels = {"input_size": (3, SIDE, SIDE), "interpolation": "bicubic", "crop_pct": 0.95, "crop_mode": "center"}
    pixels |= {"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28), "num_classes": 0}
    network = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=0, channels=(8, 12, 16, 24), stem_width=8).eval()
    place = HERE / "timm_features"
    _export(network, place, (3, SIDE, SIDE), "input", "output")
    config = {"architecture": "resnet", "num_classes": 0, "pretrained_cfg": pixels}
    (place / "config.json").write_text(json.dumps(config, indent=1))


def of_timms_pairs() -> None:
    """Export CLIP's half for pictures, as timm has it."""
    torch.manual_seed(SEED)
    network, narrow = "vit_base_patch16_clip_224.openai", {"embed_dim": 24, "depth": 2, "num_heads": 2}
    model = timm.create_model(network, pretrained=False, num_classes=16, img_size=SIDE, **narrow).eval()
    pixels = model.pretrained_cfg | {"input_size": (3, SIDE, SIDE), "num_classes": 16}
    _export(model, HERE / "timm_clip", (3, SIDE, SIDE), "input", "output")
    config = {"architecture": network.partition(".")[0], "num_classes": 16, "pretrained_cfg": pixels}
    HERE.joinpath("timm_clip", "config.json").write_text(json.dumps(config, indent=1, default=str))


def of_backbones() -> None:
    """Export transformers' ResNet, ConvNeXt and DINOv2 without a classifier."""
    narrow: dict[str, Any] = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
    of_vit: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    own, size = transformers, {"height": SIDE, "width": SIDE}
    networks = (
        ("resnet", own.ResNetModel, own.ResNetConfig(embedding_size=8, layer_type="basic", **narrow)),
        ("convnext_features", own.ConvNextModel, own.ConvNextConfig(**narrow)),
        ("dinov2", own.Dinov2Model, own.Dinov2Config(image_size=SIDE, patch_size=16, initializer_range=0.1, **of_vit)),
    )
    for name, kind, config in networks:
        torch.manual_seed(SEED)
        network = kind(config).eval()
        measured(network, [tensor(one, SIDE, SIDE) for one in SIZES])
        network.config.architectures = [kind.__name__]
        place = HERE / f"transformers_{name}"
        _export(_Chosen(network, "pooler_output").eval(), place, (3, SIDE, SIDE), "pixel_values", "pooler_output")
        network.config.save_pretrained(place)
        own.ViTImageProcessor(size=size).save_pretrained(place)


def of_model_api() -> None:
    """Write a map of classes as Geti and OTX export it for OpenVINO's ModelAPI."""
    random, place = np.random.default_rng(SEED), HERE / "openvino_segment"
    image = opset13.parameter([1, 3, SIDE, 96], np.float32, name="image")
    image.output(0).set_names({"image"})
    weights = random.normal(0, 1, (CLASSES, 3, 8, 8)).astype(np.float32)
    logits = opset13.convolution(image, weights, [4, 4], [2, 2], [2, 2], [1, 1])
    logits.output(0).set_names({"logits"})
    network = openvino.Model([opset13.result(logits)], [image])
    info = {"model_type": "Segmentation", "labels": "kind_1 kind_2 kind_3", "soft_threshold": "0.5"}
    info |= {"mean_values": "123.675 116.28 103.53", "scale_values": "58.395 57.12 57.375", "blur_strength": "-1"}
    for key, value in info.items():
        network.set_rt_info(value, ["model_info", key])
    place.mkdir(exist_ok=True)
    openvino.save_model(network, place / "model.xml", compress_to_fp16=False)


def of_torchvision() -> None:
    """Export DeepLab for pictures of any size."""
    torch.manual_seed(SEED)
    layers = [nn.Conv2d(3, 8, 9, 8, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 1, 1), nn.ReLU()]
    backbone = IntermediateLayerGetter(nn.Sequential(*layers), {"4": "out"})
    head = nn.Sequential(deeplabv3.ASPP(16, [2, 4], 8), nn.Conv2d(8, CLASSES, 1))
    network = deeplabv3.DeepLabV3(backbone, head).eval()
    prepare = SemanticSegmentation(resize_size=520)
    network.train()
    with torch.no_grad():
        network(torch.cat([prepare(picture(one).resize((96, 64)))[None] for one in PICTURES]))
        head[1].weight.mul_(20)
    network.eval()
    place = HERE / "torchvision_deeplab"
    _export(network, place, (3, 96, 128), "input", "out", open_sides=True)


WRITERS = (of_ultralytics, of_transformers, of_timm, of_timms_pairs, of_backbones, of_torchvision, of_model_api)

if __name__ == "__main__":
    for write in [one for one in WRITERS if one.__name__ in sys.argv[1:]] or WRITERS:
        write()
