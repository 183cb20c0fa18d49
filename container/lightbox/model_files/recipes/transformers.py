"""Reads ``config.json`` and ``preprocessor_config.json`` of Hugging Face's transformers.

Pixels are those of an image processor, scores those of ``pipeline`` and of ``post_process_object_detection``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from lightbox.model.options import Recipe, RecipeError
from lightbox.model_files.recipes.files import ModelFiles, class_names, said_by

_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box")
"""Filters by Pillow's number."""
_SOFTMAX = ("Detr", "Yolos", "TableTransformer")
"""Detectors with a last class for "no object"."""
_SIGMOID = ("RTDetr", "RTDetrV2", "DFine", "Deimv2", "RfDetr")
"""Detectors with a sigmoid for each class."""
_BEST_HUNDRED = ("ConditionalDetr", "DabDetr", "DeformableDetr", "LwDetr")
"""The same, whose processors keep 100 objects."""
_OF_CLASSES, _OF_DEPTHS = ("Segformer", "DPT", "Beit"), ("DPT",)
"""Networks whose maps become those of the image by one resize."""
_EMBEDDINGS = (
    *("CLIPVisionModelWithProjection", "SiglipVisionModel"),
    *("ResNetModel", "ConvNextModel", "Dinov2Model"),
)
"""Networks with several outputs, one of which is the embedding."""
_INSTEAD = "set fit, image_size and scaling"
_LEAST_SHORTER = 384
"""A shorter side below this is that of the cut-out, in ConvNeXt's processor."""
_FOLLOWED = {"do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb", "do_flip_channel_order"}
_OF_TRAINING = {"do_reduce_labels", "do_convert_annotations", "do_pad"}
"""Steps that change no image alone: padding makes images of one batch equal, unless it has a size."""
_CHANGING = ("rescale_offset", "offset", "keep_aspect_ratio", "max_size", "pad_size", "size_divisor")
"""Further keys that change pixels."""
_OF_OWN_SIZE = ("Levit",)
"""Processors whose size means another one."""
_WITHOUT_ANTIALIAS = ("RfDetr",)
"""Processors whose filter takes the nearest pixels only."""
_KEEPING: Mapping[str, int | None] = {"Detr": None, "ConditionalDetr": None, "DeformableDetr": None, "Yolos": 16}
"""Processors that keep the proportions of an image, unless their size has both sides; and the multiples that they round
sides down to."""
_SHARES = {"ConvNext": 224 / 256}
"""The ``crop_pct`` of processors that have one where a file has none."""
_THRESHOLD = 0.5
"""Least score of an object in transformers' pipeline."""


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a folder as ``save_pretrained`` and the exporters lay it out."""
    found, prepared = files.json("config.json"), files.json("preprocessor_config.json")
    architectures = found[1].get("architectures") if found else None
    if found is None or not isinstance(architectures, list) or not architectures or "pretrained_cfg" in found[1]:
        return None  # with the last it is timm's, which transformers wrap
    place, config = found
    name = said_by(architectures[0])
    if prepared is None:
        raise RecipeError(
            f"{place}: {name} needs preprocessor_config.json beside it, which has its pixels; copy it there, or set "
            "recipe to none"
        )
    options = _pixels(*prepared, files)
    said = f"transformers' {name}"
    if name.endswith("ForImageClassification"):
        labels = _labels(place, config)
        is_each = config.get("problem_type") == "multi_label_classification" or len(labels.get("labels", ())) == 1
        options |= {"activation": "sigmoid" if is_each else "softmax", "top_k": 5}
        options |= {**labels, **_outputs(files, "logits")}
        return Recipe(options, str(place), f"{said}, classes")
    detector = name.removesuffix("ForObjectDetection")
    if detector in (*_SOFTMAX, *_SIGMOID, *_BEST_HUNDRED):
        options |= {"detections": "detr", "activation": "softmax" if detector in _SOFTMAX else "sigmoid"}
        options |= {"top_k": 100} if detector in _BEST_HUNDRED else {}
        options |= {"score_threshold": _THRESHOLD, **_labels(place, config), **_outputs(files, "logits", "pred_boxes")}
        return Recipe(options, str(place), f"{said}, objects")
    more, gives = _tensors(name, files, _labels(place, config))
    return Recipe(options | more, str(place), f"{said}, {gives}")


def _tensors(name: str, files: ModelFiles, labels: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the options of a network that gives a map, an embedding, or other tensors; and what it gives."""
    if name.removesuffix("ForSemanticSegmentation") in _OF_CLASSES:
        return {"map": "classes", **labels, **_outputs(files, "logits")}, "a map of classes"
    if name.removesuffix("ForDepthEstimation") in _OF_DEPTHS:
        return {"map": "depth", **_outputs(files, "predicted_depth")}, "a map of depths"
    if name in _EMBEDDINGS:
        return _outputs(files, "image_embeds") or _outputs(files, "pooler_output"), "an embedding"
    return {}, "whose outputs are returned as tensors"


def _labels(place: Path, config: dict[str, Any]) -> dict[str, Any]:
    return {"labels": class_names(config["id2label"], str(place), "id2label")} if config.get("id2label") else {}


def _outputs(files: ModelFiles, *names: str) -> dict[str, Any]:
    """Return the outputs to take of a model that gives more."""
    given = files.signature.outputs
    return {"outputs": names} if len(given) > len(names) and set(names) <= set(given) else {}


def _pixels(place: Path, config: dict[str, Any], files: ModelFiles) -> dict[str, Any]:
    _refuse_other_steps(place, config)
    number = config.get("resample", 2)
    if not isinstance(number, int) or not 0 <= number < len(_FILTERS):
        raise RecipeError(f"{place}: resample: expected 0 to {len(_FILTERS) - 1}, got {number!r}")
    options: dict[str, Any] = {"resize": _FILTERS[number], "scaling": "none"}
    if _kind(config) in _WITHOUT_ANTIALIAS:
        if _FILTERS[number] != "bilinear":
            raise RecipeError(f"{place}: resample: expected 2, got {number}, which cannot be followed; {_INSTEAD}")
        options["resize"] = "tf_bilinear"
    if config.get("do_flip_channel_order"):
        options["channels"] = "bgr"
    if config.get("do_rescale", True):
        factor = config.get("rescale_factor", 1 / 255)
        if not isinstance(factor, int | float) or not math.isclose(factor, 1 / 255, rel_tol=1e-3):
            raise RecipeError(f"{place}: rescale_factor: expected 1/255, got {factor!r}; set recipe to none")
        options["scaling"] = "unit"
    if config.get("do_normalize", config.get("image_mean") is not None):
        std = _numbers(place, config, "image_std")
        # EfficientNet's processor divides by the deviation once more.
        options["std"] = tuple(number * number for number in std) if config.get("include_top") else std
        options["mean"] = _numbers(place, config, "image_mean")
    if config.get("do_resize", True):
        options |= _fit(place, config, files)
    return options


def _refuse_other_steps(place: Path, config: dict[str, Any]) -> None:
    """Raise RecipeError for a processor that does more than the options can say."""
    steps = [key for key in config if key.startswith("do_") and key not in _FOLLOWED | _OF_TRAINING]
    if not config.get("do_resize", True):
        steps.append("do_center_crop")
    changing = [key for key in _CHANGING if key != "max_size" or _kind(config) not in _KEEPING]
    if key := next((key for key in (*steps, *changing) if config.get(key)), None):
        raise RecipeError(f"{place}: {key}: expected none, got {config[key]!r}, which cannot be followed; {_INSTEAD}")
    if _kind(config) in _OF_OWN_SIZE:
        raise RecipeError(f"{place}: size: {_kind(config)} enlarges it, which cannot be followed; {_INSTEAD}")


def _kind(config: dict[str, Any]) -> str:
    """Return the name of the processor without its ending: ``Levit`` for LevitImageProcessorFast."""
    name = config.get("image_processor_type") or config.get("feature_extractor_type")
    return re.sub("(ImageProcessor|FeatureExtractor)(Fast)?$", "", str(name))


def _numbers(place: Path, config: dict[str, Any], key: str) -> tuple[float, ...]:
    found = config.get(key)
    if not isinstance(found, list) or not all(isinstance(number, int | float) for number in found):
        raise RecipeError(f"{place}: {key}: expected a number for each channel, got {found!r}")
    return tuple(found)


def _fit(place: Path, config: dict[str, Any], files: ModelFiles) -> dict[str, Any]:
    size, share = config.get("size"), config.get("crop_pct") or _SHARES.get(_kind(config))
    cut = _sides(config.get("crop_size")) if config.get("do_center_crop") else None
    if _kind(config) in _KEEPING and files.has_open_sides and (kept := _kept(config)):
        return kept
    shorter = size.get("shortest_edge") if isinstance(size, dict) else size if share else None
    if isinstance(size, dict) and size.get("longest_edge"):
        shorter = None
    if shorter is None and not config.get("do_center_crop") and (sides := _sides(size)):
        return _sized({"fit": "stretch"}, sides, files, place)
    if isinstance(shorter, int) and _is_share(share):
        if cut is None and shorter >= _LEAST_SHORTER:
            return _sized({"fit": "stretch"}, (shorter, shorter), files, place)
        cut, shorter = cut or (shorter, shorter), int(shorter / share)
    if isinstance(shorter, int) and cut is not None:
        return _sized({"fit": "crop", "crop_offset": "lower", "resize_shorter": shorter}, cut, files, place)
    raise RecipeError(
        f"{place}: size: expected height and width, or shortest_edge with a cut; got {size!r}, which keeps the "
        f"proportions of each image and cannot be followed; {_INSTEAD}"
    )


def _kept(config: dict[str, Any]) -> dict[str, Any] | None:
    """Return how a whole image is resized in its proportions, None for a processor that stretches it."""
    size = config.get("size")
    given = size if isinstance(size, dict) else {"shortest_edge": size, "longest_edge": config.get("max_size", 1333)}
    shorter, longer = given.get("shortest_edge"), given.get("longest_edge")
    if not isinstance(shorter, int) or not isinstance(longer, int):
        return None
    kept: dict[str, Any] = {"fit": "crop", "resize_shorter": shorter, "resize_longer": longer}
    return kept | ({"stride": stride} if (stride := _KEEPING[_kind(config)]) else {})


def _sides(found: object) -> tuple[int, int] | None:
    """Return width and height; None for other forms."""
    width, height = (found.get("width"), found.get("height")) if isinstance(found, dict) else (found, found)
    return (width, height) if isinstance(width, int) and isinstance(height, int) else None


def _is_share(found: object) -> TypeGuard[float]:
    return isinstance(found, int | float) and 0.01 <= found <= 1


def _sized(options: dict[str, Any], size: tuple[int, int], files: ModelFiles, place: Path) -> dict[str, Any]:
    image = files.image
    fixed = (image.width, image.height) if image is not None and not files.has_open_sides else None
    if fixed is None:
        return {**options, "image_size": f"{size[0]}x{size[1]}"}
    if fixed != size:
        raise RecipeError(
            f"{place}: size: expected {fixed[0]}x{fixed[1]}, that of the model's input, got {size[0]}x{size[1]}; set "
            "recipe to none, and the options"
        )
    return options
