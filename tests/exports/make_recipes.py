"""Write what libraries export with their own exporters: recipes/NAME/. record_answers.py records what they answer.

    PYTHONPATH=tests python tests/exports/make_recipes.py [of_timm ...]

It runs in an environment of its own, with requirements/recipes.in. The files are committed: tests need none of these
libraries, of which Ultralytics is under the AGPL, and nothing of them is copied. Weights are drawn from a seed. What
follows a network's last layer is scaled so that its scores differ.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import ultralytics
from timm.models.resnet import BasicBlock, ResNet
from torch import nn
from torchvision.models import detection
from torchvision.ops import MultiScaleRoIAlign
from ultralytics.data.augment import LetterBox
from ultralytics.nn import tasks

from pixels.pictures import SIZES, picture

HERE = Path(__file__).parent / "recipes"
SEED = 20261129
SPREAD, OBJECTS = 1.5, 8
"""Standard deviation of the logits of a detector's classes, and how many of each class and level are objects."""
ANCHORS = (64, 16, 4)
"""Places of three levels in a picture of 64 by 64 pixels."""


def tensor(name: str, width: int, height: int) -> torch.Tensor:
    """Return a picture as [1, 3, height, width], 0..1."""
    pixels = np.asarray(picture(name).resize((width, height)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255


def letterboxed(side: Any) -> list[torch.Tensor]:
    """Return all pictures as Ultralytics' predictor prepares them for an input of a side, or of height and width."""
    box = LetterBox((side, side) if isinstance(side, int) else side, auto=False)
    made = [box(image=np.asarray(picture(name))).transpose(2, 0, 1) for name in SIZES]
    return [torch.from_numpy(np.ascontiguousarray(one))[None].float() / 255 for one in made]


def measured(network: nn.Module, pixels: list[torch.Tensor]) -> None:
    """Give BatchNorm the statistics of the pictures."""
    network.train()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
            part.reset_running_stats()
    with torch.no_grad():
        network(torch.cat(pixels))
    network.eval()


OF_ULTRALYTICS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("ultralytics_detect", "yolo11", "detect", {"imgsz": (96, 128)}),
    ("ultralytics_dynamic", "yolo11", "detect", {"imgsz": 96, "dynamic": True}),
    ("ultralytics_classify", "yolo11", "classify", {"imgsz": 64}),
    ("ultralytics_segment", "yolo26", "segment", {"imgsz": (96, 128)}),
    ("ultralytics_pose", "yolo26", "pose", {"imgsz": (96, 128)}),
    ("ultralytics_obb", "yolo26", "obb", {"imgsz": (96, 128)}),
    ("ultralytics_end_to_end", "yolo26", "pose", {"imgsz": (96, 128), "nms": False}),
    ("ultralytics_nms", "yolo26", "obb", {"imgsz": (96, 128), "nms": True, "batch": 2}),
    ("ultralytics_half", "yolo26", "segment", {"imgsz": (96, 128), "quantize": 16}),
    ("ultralytics_openvino_model", "yolo11", "detect", {"imgsz": (96, 128), "format": "openvino"}),
)
"""Name, network, task, and arguments of ``export``."""
SHALLOW = [f"ultralytics_{name}" for name in ("dynamic", "segment", "pose", "end_to_end", "half", "openvino_model")]
"""Those with four layers before the head: deep drawn networks make a thousand times as much of a number's last bit."""
KINDS = {
    "detect": ("", tasks.DetectionModel),
    "classify": ("-cls", tasks.ClassificationModel),
    "segment": ("-seg", tasks.SegmentationModel),
    "pose": ("-pose", tasks.PoseModel),
    "obb": ("-obb", tasks.OBBModel),
}


def of_ultralytics() -> None:
    """Export Ultralytics' networks, the smallest width; only those that are named, if there are names."""
    chosen = [one for one in OF_ULTRALYTICS if one[0] in sys.argv[1:]] or OF_ULTRALYTICS
    for name, network, task, options in chosen:
        torch.manual_seed(SEED)
        suffix, kind = KINDS[task]
        described = {**_yaml(f"{network}{suffix}.yaml"), "nc": 5}
        described |= {"scales": {"n": [0.33, 0.0625, 64]}, "scale": "n", "yaml_file": f"{name}.yaml"}
        if name in SHALLOW:
            described["backbone"] = [[-1, 1, "Conv", [64, 3, stride]] for stride in (4, 2, 2, 2)]
            described["head"] = [[[1, 2, 3], *described["head"][-1][1:]]]
        if task == "pose":
            described["kpt_shape"] = [4, 3]
        model = ultralytics.YOLO(f"{network}n{suffix}.yaml", task=task)
        arguments = model.model.args
        model.model = kind(described, ch=3, nc=5, verbose=False)
        model.model.args, model.model.task = arguments, task
        model.model.names = {number: f"thing {number}" for number in range(5)}
        pixels = letterboxed(640 if "dynamic" in options else options["imgsz"])
        measured(model.model, pixels)
        _spread(model.model, task, pixels)
        model.ckpt = {}
        of_onnx = {"format": "onnx", "opset": 17, "simplify": False} if "format" not in options else {}
        made = Path(model.export(**of_onnx, **options))
        place = HERE / name
        place.mkdir(parents=True, exist_ok=True)
        for file in made.iterdir() if made.is_dir() else [made]:
            shutil.move(file, place / (file.name if file.suffix == ".yaml" else f"model{file.suffix}"))


def of_rtdetr() -> None:
    """Export Ultralytics' RT-DETR on a small backbone."""
    torch.manual_seed(SEED)
    backbone = [[-1, 1, "Conv", [8, 3, 4]], [-1, 1, "Conv", [8, 3, 2]], [-1, 1, "Conv", [16, 3, 2]]]
    backbone += [[-1, 1, "Conv", [16, 3, 2]]]
    levels: list[Any] = [1, 2, 3]
    shape = [16, sum(ANCHORS), 2, 2, 2, 16]
    described = {"nc": 3, "backbone": backbone, "head": [[levels, 1, "RTDETRDecoder", ["nc", *shape]]], "ch": 3}
    described |= {"scales": {"l": [1, 1, 1024]}, "scale": "l", "yaml_file": "rtdetr-l.yaml"}
    model = ultralytics.RTDETR("rtdetr-l.yaml")
    arguments = model.model.args
    model.model = ultralytics.nn.tasks.RTDETRDetectionModel(described, ch=3, nc=3, verbose=False)
    model.model.args, model.model.task = arguments, "detect"
    model.model.names = {number: f"thing {number}" for number in range(3)}
    model.model.eval()
    last = model.model.model[-1].dec_score_head[-1]
    with torch.no_grad():
        logits = torch.cat([model.model(tensor(name, 64, 64))[1][1][-1] for name in SIZES])
        _spread_linear(last, logits)
    model.ckpt = {}
    place = HERE / "ultralytics_rtdetr" / "model.onnx"
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(model.export(format="onnx", opset=17, simplify=False, imgsz=64), place)


def _yaml(name: str) -> dict[str, Any]:
    return dict(ultralytics.utils.YAML.load(ultralytics.utils.checks.check_yaml(name)))


def _spread(network: Any, task: str, pixels: list[torch.Tensor]) -> None:
    head = network.model[-1]
    with torch.no_grad():
        if task == "classify":
            head.linear.weight.mul_(30)
            return
        network.eval()
        for before in ("", "one2one_"):  # the branches before suppression, and those of an end-to-end answer
            for branch in getattr(head, f"{before}cv3", None) or ():
                last, logits = branch[-1], _seen(network, branch, pixels)[0]
                share = SPREAD / logits.std(dim=1)
                last.weight.mul_(share[:, None, None, None])
                last.bias.copy_((last.bias - logits.topk(OBJECTS, dim=1).values[:, -1]) * share - 1)
            further = "cv4_kpts" if hasattr(head, "cv4_kpts") else "cv4"  # keypoints, angles, coefficients of masks
            for branch in getattr(head, f"{before}{further}", None) or ():
                last = branch[-1] if isinstance(branch, nn.Sequential) else branch
                last.weight.mul_(2 / _seen(network, branch, pixels).std())


def _seen(network: Any, branch: nn.Module, pixels: list[torch.Tensor]) -> torch.Tensor:
    """Return what a part of a network gives for the pictures."""
    seen: list[torch.Tensor] = []
    hook = branch.register_forward_hook(lambda *found: seen.append(found[2]))
    for one in pixels:
        network(one)
    hook.remove()
    return torch.cat([one.flatten(2) for one in seen], dim=2)


def of_timm() -> None:
    """Export a ResNet with timm's configuration beside it."""
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


class _Logits(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return self.network(pixel_values=pixel_values).logits


def of_transformers() -> None:
    """Export classifiers of transformers with their processors beside them."""
    torch.manual_seed(SEED)
    vit = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=64, num_labels=6
    )
    convnext = transformers.ConvNextConfig(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], num_labels=6)
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
        _export(_Logits(network).eval(), place, (3, 64, 64), "pixel_values", "logits")
        network.config.save_pretrained(place)
        processor.save_pretrained(place)


class _Boxes(_Logits):
    def forward(self, pixel_values: torch.Tensor) -> Any:
        found = self.network(pixel_values=pixel_values)
        return found.logits, found.pred_boxes


class _Backbone(nn.Sequential):
    def __init__(self, channels: Any) -> None:
        super().__init__(nn.Conv2d(3, 8, 7, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.out_channels = channels

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"0": super().forward(images)}


def of_torchvision() -> None:
    """Export detectors, with the names of their answers; they take pictures of any size, and resize them themselves."""
    torch.manual_seed(SEED)
    anchors = detection.anchor_utils.AnchorGenerator(((32, 64),), ((0.5, 1.0, 2.0),))
    sizes = {"min_size": 96, "max_size": 160}
    classes = 4

    def boxes() -> dict[str, Any]:
        predictor = detection.faster_rcnn.FastRCNNPredictor(16, classes)
        with torch.no_grad():
            predictor.cls_score.weight.mul_(30)
        return {
            **{**sizes, "rpn_anchor_generator": anchors, "box_roi_pool": MultiScaleRoIAlign(["0"], 7, 2)},
            **{"box_head": detection.faster_rcnn.TwoMLPHead(8 * 49, 16), "box_predictor": predictor},
            **{"rpn_pre_nms_top_n_test": 100, "rpn_post_nms_top_n_test": 30, "box_detections_per_img": 12},
        }

    pool, masks, points = MultiScaleRoIAlign(["0"], 14, 2), detection.mask_rcnn, detection.keypoint_rcnn
    of_masks = {"mask_head": masks.MaskRCNNHeads(8, (8,), 1), "mask_predictor": masks.MaskRCNNPredictor(8, 8, classes)}
    of_points = {"keypoint_head": points.KeypointRCNNHeads(8, (8,))}
    of_points |= {"keypoint_predictor": points.KeypointRCNNPredictor(8, 5)}
    grid = detection.anchor_utils.DefaultBoxGenerator([[2]], scales=[0.2, 0.4])
    networks = {
        "torchvision_faster_rcnn": detection.FasterRCNN(_Backbone(8), **boxes()),
        "torchvision_mask_rcnn": detection.MaskRCNN(_Backbone(8), **boxes(), mask_roi_pool=pool, **of_masks),
        "torchvision_keypoint_rcnn": detection.KeypointRCNN(
            _Backbone(8), **boxes(), keypoint_roi_pool=pool, **of_points
        ),
        "torchvision_retinanet": detection.RetinaNet(
            _Backbone(8), classes, **sizes, anchor_generator=anchors, detections_per_img=12, topk_candidates=60
        ),
        "torchvision_ssd": detection.ssd.SSD(_Backbone([8]), grid, (96, 96), classes, detections_per_img=12),
    }
    with torch.no_grad():
        head = networks["torchvision_retinanet"].head.classification_head
        for part in (*head.conv.modules(), head.cls_logits):
            if isinstance(part, nn.Conv2d):
                part.weight.mul_(15)
        head.cls_logits.bias.fill_(-2)
        networks["torchvision_ssd"].head.classification_head.module_list[0].weight.mul_(4)
        networks["torchvision_mask_rcnn"].roi_heads.mask_predictor.mask_fcn_logits.weight.mul_(60)
        networks["torchvision_keypoint_rcnn"].roi_heads.keypoint_predictor.kps_score_lowres.weight.mul_(30)
    for name, network in networks.items():
        with torch.no_grad():
            (found,) = network.eval()(torch.zeros(1, 3, 96, 128))
        _export(network, HERE / name, (3, 96, 128), "images", *found, open_sides=True)


class _Swapped(_Boxes):
    def forward(self, pixel_values: torch.Tensor) -> Any:
        return super().forward(pixel_values)[::-1]


def of_detectors() -> None:
    """Export detectors of transformers with their processors beside them."""
    torch.manual_seed(SEED)
    resnet = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    levels = {"out_features": ["stage2", "stage3", "stage4"]}
    hgnet: dict[str, Any] = {"stem_channels": [3, 8, 8], "embedding_size": 8, "stage_numb_of_layers": [1, 1, 1, 1]}
    hgnet |= {"stage_in_channels": [8, 8, 8, 16], "stage_mid_channels": [8, 8, 8, 8], **resnet}
    hgnet |= {"stage_out_channels": [8, 8, 16, 16], "stage_num_blocks": [1, 1, 1, 1]}
    shape: dict[str, Any] = {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 16, "encoder_attention_heads": 2}
    shape |= {"decoder_layers": 1, "decoder_ffn_dim": 16, "decoder_attention_heads": 2, "num_labels": 3}
    # As many queries as anchors: of those that a few are chosen from, rounding may choose others.
    real_time = {**shape, "encoder_hidden_dim": 16, "encoder_in_channels": [8, 16, 16], "hidden_expansion": 0.5}
    real_time |= {"decoder_in_channels": [16, 16, 16], "decoder_n_points": 2, "decoder_layers": 2}
    real_time["num_queries"] = sum(ANCHORS)
    dinov2: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "mlp_ratio": 1,
        "image_size": 64,
    }
    dinov2 |= {"patch_size": 8, "num_windows": 2, "out_indices": [1, 2]}
    rf_detr: dict[str, Any] = {"d_model": 16, "decoder_ffn_dim": 16, "decoder_layers": 1, "num_labels": 3}
    rf_detr |= {"decoder_self_attention_heads": 2, "decoder_cross_attention_heads": 2, "group_detr": 1}
    rf_detr |= {"hidden_expansion": 0.5, "c2f_num_blocks": 1, "decoder_n_points": 2, "num_queries": ANCHORS[0]}
    own = transformers
    networks = {
        "transformers_rt_detr": own.RTDetrForObjectDetection(
            own.RTDetrConfig(backbone_config=own.RTDetrResNetConfig(**resnet, **levels), **real_time)
        ),
        "transformers_rt_detr_v2": own.RTDetrV2ForObjectDetection(
            own.RTDetrV2Config(backbone_config=own.RTDetrResNetConfig(**resnet, **levels), **real_time)
        ),
        "transformers_d_fine": own.DFineForObjectDetection(
            own.DFineConfig(backbone_config=own.HGNetV2Config(**hgnet, **levels), **real_time)
        ),
        "transformers_rf_detr": own.RfDetrForObjectDetection(
            own.RfDetrConfig(backbone_config=own.RfDetrDinov2Config(**dinov2), **rf_detr)
        ),
    }
    shape |= {"init_std": 0.3, "num_queries": 20}  # with smaller weights all queries find the same
    for name in ("transformers_detr", "transformers_detr_open"):
        backbone = own.ResNetConfig(**resnet, out_features=["stage4"])
        networks[name] = own.DetrForObjectDetection(own.DetrConfig(backbone_config=backbone, **shape))
    # The positions are those of the size; a trace would resize them with a filter that ONNX has not.
    embeddings = own.models.rf_detr.modeling_rf_detr.RfDetrDinov2Embeddings
    embeddings.interpolate_pos_encoding = lambda self, *_: self.position_embeddings
    inner = networks["transformers_rf_detr"].model
    with torch.no_grad():  # its queries are learned for ranks of anchors, which rounding changes
        for learned in (inner.query_feat.weight, inner.reference_point_embed.weight):
            learned.copy_(learned[:1].expand_as(learned))
    size = {"height": 64, "width": 64}
    for name, network in networks.items():
        network.eval()
        is_open = name == "transformers_detr_open"
        if is_open:
            processor: Any = own.DetrImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
        elif name == "transformers_detr":
            processor = own.DetrImageProcessor(size={"height": 64, "width": 96})
        else:
            processor = (own.RfDetrImageProcessor if "rf" in name else own.RTDetrImageProcessor)(size=size)
        _exported(name, network, processor, is_open)
    # RF-DETR's own exporter gives the outputs other names, and writes nothing beside.
    network = networks["transformers_rf_detr"]
    _export(_Swapped(network).eval(), HERE / "rf_detr", (3, 64, 64), "input", "dets", "labels")


def of_yolos() -> None:
    """Export YOLOS as ``of_detectors``: its processor keeps the proportions of a picture by multiples of 16 pixels."""
    torch.manual_seed(SEED)
    shape: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"hidden_size": 24, "image_size": [64, 96], "patch_size": 8, "num_detection_tokens": 20, "num_labels": 3}
    shape["initializer_range"] = 0.2  # else pixels hardly matter
    network = transformers.YolosForObjectDetection(transformers.YolosConfig(**shape))
    nn.init.normal_(network.vit.embeddings.detection_tokens)  # else all find the same
    # With a longer side of 96 it would make nothing of the long picture: 13 rows are less than 16.
    processor = transformers.YolosImageProcessor(size={"shortest_edge": 64, "longest_edge": 160})
    _exported("transformers_yolos", network.eval(), processor, is_open=True)


def _exported(name: str, network: Any, processor: Any, is_open: bool) -> None:
    """Export a detector with its processor beside it."""
    network.config.id2label = {number: f"kind {number}" for number in range(3)}
    network.config.architectures = [type(network).__name__]
    pixels = {one: processor(picture(one), return_tensors="pt")["pixel_values"] for one in SIZES}
    _spread_classes(network, list(pixels.values()))
    place, taken = HERE / name, pixels["wide"].shape[1:]
    _export(_Boxes(network).eval(), place, taken, "pixel_values", "logits", "pred_boxes", open_sides=is_open)
    network.config.save_pretrained(place)
    processor.save_pretrained(place)


def _export(
    network: nn.Module, place: Path, shape: tuple[int, ...], taken: str, *given: str, open_sides: bool = False
) -> None:
    place.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        network,
        (torch.zeros(1, *shape),),
        str(place / "model.onnx"),
        input_names=[taken],
        output_names=list(given),
        dynamic_axes={taken: {2: "height", 3: "width"}} if open_sides else None,
        opset_version=17,
        dynamo=False,
    )


def _spread_classes(network: Any, pictures: list[torch.Tensor]) -> None:
    """Scale what gives the logits of a detector's classes."""
    decoder = getattr(getattr(network, "model", None), "decoder", None)
    places = ((decoder, "class_embed"), (network, "class_embed"), (network, "class_labels_classifier"))
    inner = next(found for place, name in places if (found := getattr(place, name, None)) is not None)
    inner = getattr(inner, "layers", inner)
    last = inner[-1] if isinstance(inner, nn.ModuleList) else inner
    with torch.no_grad():
        _spread_linear(last, torch.cat([network(pixel_values=one).logits for one in pictures]))


def _spread_linear(last: nn.Linear, logits: torch.Tensor) -> None:
    spread = 2 / logits.std(dim=(0, 1))
    last.weight.mul_(spread[:, None])
    last.bias.copy_((last.bias - logits.mean(dim=(0, 1))) * spread - 3)


WRITERS = (of_ultralytics, of_rtdetr, of_timm, of_transformers, of_detectors, of_yolos, of_torchvision)

if __name__ == "__main__":
    os.chdir(HERE.parent)
    HERE.mkdir(exist_ok=True)
    for write in [one for one in WRITERS if one.__name__ in sys.argv[1:]] or WRITERS:
        write()
