"""All that transformers write into ``config.json`` and ``preprocessor_config.json`` becomes options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from lightbox.model.options import RecipeError, ResolvedOptions
from support.model_files import write_dense_as
from support.recipes import Sides, resolved, write_network

VIT = {"architectures": ["ViTForImageClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}
PIXELS = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.2, 0.1],
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 64, "width": 64},
}


SHORTER = {"size": {"shortest_edge": 72}, "do_center_crop": True}


def options_of(
    folder: Path,
    config: dict[str, Any],
    pixels: dict[str, Any] | None,
    sides: Sides = (64, 64),
    outputs: tuple[str, ...] = ("logits",),
    **own: Any,
) -> ResolvedOptions:
    values = {name: np.zeros((1, 5, 4 if name == "pred_boxes" else 3)) for name in outputs}
    if outputs == ("logits",):
        values = {"logits": np.zeros((1, 3))}
    file = write_network(folder / "net.onnx", values, sides)
    (folder / "config.json").write_text(json.dumps(config))
    if pixels is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    return resolved(file, own)


def test_a_classifier_needs_no_options(tmp_path: Path) -> None:
    options = options_of(tmp_path, VIT, PIXELS)
    assert (options.fit, options.resize, options.scaling, options.image_size) == ("stretch", "bicubic", "unit", None)
    assert (options.mean, options.std) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    assert (options.labels, options.activation, options.top_k) == (("a", "b", "c"), "softmax", 5)
    assert options_of(tmp_path, VIT, PIXELS, ("height", "width")).image_size == (64, 64)
    assert options_of(tmp_path, VIT | {"problem_type": "multi_label_classification"}, PIXELS).activation == "sigmoid"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"size": 64}, ("stretch", None)),
        (
            {"size": {"shortest_edge": 72}, "do_center_crop": True, "crop_size": {"height": 64, "width": 64}},
            ("crop", 72),
        ),
        ({"size": {"shortest_edge": 72}, "do_center_crop": True, "crop_size": 64}, ("crop", 72)),
        ({"size": {"shortest_edge": 64}, "crop_pct": 0.875}, ("crop", 73)),  # ConvNeXt's processor
        ({"size": 64, "crop_pct": 0.875}, ("crop", 73)),  # an older one, as of microsoft/resnet-50
        ({"size": 64, "crop_pct": None, "feature_extractor_type": "ConvNextFeatureExtractor"}, ("crop", 73)),
        ({"size": {"shortest_edge": 64}, "crop_pct": 0.9, "do_center_crop": True, "crop_size": 64}, ("crop", 71)),
    ],
)
def test_the_size_is_that_of_the_processor(
    changes: dict[str, Any], expected: tuple[str, int | None], tmp_path: Path
) -> None:
    options = options_of(tmp_path, VIT, PIXELS | changes, ("height", "width"))
    assert (options.fit, options.resize_shorter) == expected
    assert options.image_size == (64, 64)


@pytest.mark.parametrize(
    ("architecture", "activation", "most"),
    [
        ("DetrForObjectDetection", "softmax", None),
        ("RTDetrV2ForObjectDetection", "sigmoid", None),
        ("DeformableDetrForObjectDetection", "sigmoid", 100),
    ],
)
def test_a_detector_has_the_scores_of_its_architecture(
    architecture: str, activation: str, most: int | None, tmp_path: Path
) -> None:
    names = {"0": "a", "1": "b"} if activation == "softmax" else VIT["id2label"]  # the last class is no object
    config = {"architectures": [architecture], "id2label": names}
    options = options_of(tmp_path, config, PIXELS, outputs=("logits", "pred_boxes", "last_hidden_state"))
    assert (options.detections, options.activation, options.score_threshold) == ("detr", activation, 0.5)
    assert (options.outputs, options.top_k) == (("logits", "pred_boxes"), most)
    deta = {"architectures": ["DetaForObjectDetection"]}  # whose boxes are suppressed as well
    assert options_of(tmp_path, deta, PIXELS, outputs=("logits", "pred_boxes")).detections is None


def test_detrs_photos_keep_their_proportions(tmp_path: Path) -> None:
    config = {"architectures": ["DetrForObjectDetection"], "id2label": {"0": "a", "1": "b"}}
    for size in ({"size": {"shortest_edge": 800, "longest_edge": 1333}}, {"size": 800, "max_size": 1333}):
        pixels = PIXELS | size | {"image_processor_type": "DetrImageProcessor"}
        options = options_of(tmp_path, config, pixels, ("height", "width"), ("logits", "pred_boxes"))
        assert (options.fit, options.resize_shorter, options.resize_longer) == ("crop", 800, 1333)
        assert (options.image_size, options.detections) == (None, "detr")
        with pytest.raises(RecipeError, match="size: expected"):  # who resized photos to this size is not known
            options_of(tmp_path, config, pixels, outputs=("logits", "pred_boxes"))


def test_rf_detrs_filter_takes_the_nearest_pixels(tmp_path: Path) -> None:
    pixels = {**PIXELS, "resample": 2, "image_processor_type": "RfDetrImageProcessor"}
    assert options_of(tmp_path, VIT, pixels).resize == "tf_bilinear"
    with pytest.raises(RecipeError, match="resample: expected 2, got 3"):
        options_of(tmp_path, VIT, {**pixels, "resample": 3})


def test_other_networks_get_their_pixels_and_stay_tensors(tmp_path: Path) -> None:
    options = options_of(tmp_path, VIT | {"architectures": ["MaskFormerForInstanceSegmentation"]}, PIXELS)
    assert (options.scaling, options.labels, options.top_k) == ("unit", None, None)
    assert "returned as tensors" in options.recipe_said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": {"shortest_edge": 800, "longest_edge": 1333}}, "keeps the proportions of each image"),
        ({"size": {"height": 32, "width": 32}}, "size: expected 64x64, that of the model's input, got 32x32"),
        ({"size": "large"}, "size: expected height and width"),
        ({"rescale_factor": 0.5}, "rescale_factor: expected 1/255, got 0.5"),
        ({"resample": 7}, "resample: expected 0 to 4, got 7"),
        ({"image_mean": None}, "image_mean: expected a number for each channel"),
        ({"image_std": [0, 0, 0]}, "std: expected numbers other than 0"),
        ({"size": 800, "max_size": 1333}, "max_size: expected none, got 1333"),
        ({"do_thumbnail": True}, "do_thumbnail: expected none"),
        ({**SHORTER, "crop_size": {"shortest_edge": 64}}, "size: expected height and width"),
        ({**SHORTER, "crop_size": 64, "image_processor_type": "LevitImageProcessorFast"}, "enlarges it"),
        ({"size": {"shortest_edge": 64}, "crop_pct": 0}, "size: expected height and width"),
    ],
)
def test_what_cannot_be_followed_is_a_sentence(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=words):
        options_of(tmp_path, VIT, PIXELS | changes)
    assert options_of(tmp_path, VIT, PIXELS | changes, scaling="unit").recipe_source == ""


def test_a_missing_processor_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"ViTForImageClassification needs preprocessor_config\.json"):
        options_of(tmp_path, VIT, None)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").touch()  # it may make pixels by itself
    assert resolved(tmp_path / "net.onnx", code=[tmp_path / "code"]).recipe_source == ""
    assert options_of(tmp_path, {"backend": "tensorflow"}, None).recipe_source == ""


def test_what_a_processor_does_besides_is_followed(tmp_path: Path) -> None:
    assert options_of(tmp_path, VIT, PIXELS | {"do_flip_channel_order": True, "do_normalize": False}).channels == "bgr"
    twice = options_of(tmp_path, VIT, PIXELS | {"include_top": True})  # EfficientNet's divides twice
    assert twice.std == pytest.approx((0.04, 0.04, 0.01))
    alone = VIT | {"id2label": {"0": "a"}}
    values = {"logits": np.zeros((1, 1))}
    file = write_network(tmp_path / "one.onnx", values)
    (tmp_path / "config.json").write_text(json.dumps(alone))
    assert resolved(file).activation == "sigmoid"


def test_open_inputs_are_of_torch(tmp_path: Path) -> None:
    assert options_of(tmp_path, VIT, PIXELS).layout is None
    network = onnx.load(tmp_path / "net.onnx")
    for side in network.graph.input[0].type.tensor_type.shape.dim:
        side.dim_param = f"any{side.dim_value}"
    onnx.save(network, tmp_path / "net.onnx")
    options = resolved(tmp_path / "net.onnx")
    assert (options.layout, options.image_size) == ("NCHW", (64, 64))


def test_features_and_networks_without_pixels_stay_tensors(tmp_path: Path) -> None:
    options = options_of(tmp_path, VIT, PIXELS, outputs=("last_hidden_state", "pooler_output"))
    assert (options.labels, options.top_k, options.scaling) == (None, None, "unit")
    assert "its outputs stay tensors: expected one output of [batch, classes]" in options.recipe_said
    write_dense_as(tmp_path / "text.onnx")
    assert resolved(tmp_path / "text.onnx").recipe_source == ""


def test_an_option_replaces_what_belongs_together(tmp_path: Path) -> None:
    cut = PIXELS | SHORTER | {"crop_size": 64}
    assert options_of(tmp_path, VIT, cut, fit="stretch").resize_shorter is None
    assert options_of(tmp_path, VIT, cut, crop_pct=0.9).resize_shorter is None
    named = options_of(tmp_path, VIT, cut)
    assert (named.labels, named.top_k) == (("a", "b", "c"), 5)
    for own in ({"outputs": ["logits"]}, {"detections": None}):  # who chooses outputs gets them as they are
        raw = resolved(tmp_path / "net.onnx", own)
        assert (raw.labels, raw.top_k, raw.fit) == (None, None, "crop")
