"""Values of Geti and OTX in OpenVINO IR, which are for ModelAPI, become options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from lightbox.model.options import RecipeError, ResolvedOptions
from support.parameters import each
from support.recipes import resolved

INFO = {
    **{"model_type": "Classification", "labels": "cat small_dog", "mean_values": "123.675 116.28 103.53"},
    **{"scale_values": "58.395 57.12 57.375", "resize_type": "standard", "reverse_input_channels": "False"},
}
DETECTOR = {**INFO, "model_type": "ssd", "resize_type": "fit_to_window", "pad_value": "114"}


SEGMENTS = {**INFO, "model_type": "Segmentation", "blur_strength": "-1", "soft_threshold": "0.5"}
YOLO = {"model_type": "YOLOv8", "labels": "cat small_dog"}


def write_ir(file: Path, info: dict[str, str], outputs: dict[str, Any], by_softmax: bool = False) -> Path:
    """Write a network that gives ``outputs`` for any picture of [1, 3, 32, 48]."""
    x = opset13.parameter([1, 3, 32, 48], np.float32, name="image")
    nothing = opset13.multiply(opset13.reduce_mean(x, np.array([0, 1, 2, 3])), np.float32(0))
    results = []
    for name, value in outputs.items():
        found = opset13.add(opset13.constant(np.asarray(value, np.float32)), nothing)
        if by_softmax:
            found = opset13.reshape(opset13.softmax(found, 1), np.array([1, -1]), False)
        found.output(0).set_names({name})
        results.append(opset13.result(found))
    model = openvino.Model(results, [x])
    for key, value in info.items():
        model.set_rt_info(value, ["model_info", key])
    openvino.save_model(model, file)
    return file


def options_of(folder: Path, info: dict[str, str], outputs: dict[str, Any], **own: Any) -> ResolvedOptions:
    return resolved(write_ir(folder / "net.xml", info, outputs), own)


CLASSES = {"logits": np.zeros((1, 2))}
OBJECTS = {"boxes": np.zeros((1, 9, 5)), "labels": np.zeros((1, 9)), "saliency_map": np.zeros((1, 4, 4, 2))}


def test_a_classifier_needs_no_options(tmp_path: Path) -> None:
    options = options_of(tmp_path, INFO, CLASSES)
    assert (options.fit, options.resize, options.scaling, options.channels) == (
        *("stretch", "openvino_bilinear"),
        *("none", "rgb"),
    )
    assert (options.mean, options.std) == ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
    assert (options.labels, options.activation, options.top_k) == (("cat", "small_dog"), "softmax", 5)
    each_alone = options_of(tmp_path, INFO | {"multilabel": "True"}, CLASSES)
    assert (each_alone.activation, each_alone.top_k) == ("sigmoid", 2)
    more = options_of(tmp_path, INFO, {"logits": np.zeros((1, 3)), "feature_vector": np.zeros((1, 4))})
    assert (more.labels, more.outputs) == (("other", "cat", "small_dog"), ("logits",))
    assert resolved(write_ir(tmp_path / "soft.xml", INFO, CLASSES, by_softmax=True)).activation == "none"


def test_a_detector_needs_no_options(tmp_path: Path) -> None:
    options = options_of(tmp_path, DETECTOR | {"confidence_threshold": "0.35"}, OBJECTS)
    assert (options.fit, options.pad_at, options.pad) == ("letterbox", "end", 114)
    assert (options.detections, options.score_threshold, options.labels) == ("mmdet", 0.35, ("cat", "small_dog"))
    assert options.outputs == ("boxes", "labels")


def test_a_map_of_classes_needs_no_options(tmp_path: Path) -> None:
    logits = np.zeros((1, 3, 16, 16))
    options = options_of(tmp_path, SEGMENTS, {"logits": logits, "feature_vector": np.zeros((1, 4))})
    assert (options.map, options.labels) == ("modelapi-classes", ("background", "cat", "small_dog"))
    assert options.outputs == ("logits",)
    assert options_of(tmp_path, SEGMENTS, {"logits": logits[:, 1:]}).labels == ("cat", "small_dog")


def test_yolo_has_its_own_usual_values(tmp_path: Path) -> None:
    options = options_of(tmp_path, YOLO, {"boxes": np.zeros((1, 6, 9))})
    assert (options.fit, options.pad, options.std, options.channels) == ("letterbox", 114, (255,), "rgb")
    assert (options.detections, options.score_threshold, options.iou_threshold) == ("ultralytics", 0.25, 0.7)
    several = YOLO | {"nms_execute": "False", "agnostic_nms": "True", "resize_type": "standard"}
    other = options_of(tmp_path, several, {"boxes": np.zeros((1, 6, 9))})
    assert (other.fit, other.iou_threshold, other.class_agnostic) == ("stretch", 1, True)


@each(
    ("info", "outputs", "said"),
    [
        (DETECTOR | {"model_type": "MaskRCNN"}, {**OBJECTS, "masks": np.zeros((1, 9, 28, 28))}, "MaskRCNN, whose"),
        (INFO | {"hierarchical": "True"}, CLASSES, "Classification, hierarchical, whose"),
        (DETECTOR | {"nms_execute": "True"}, OBJECTS, "ssd, with overlaps that nms_execute leaves out, whose"),
        (YOLO, {"boxes": np.zeros((1, 90, 7))}, "YOLOv8, whose"),
        (SEGMENTS | {"blur_strength": "5"}, {"logits": np.zeros((1, 3, 8, 8))}, "Segmentation, whose"),
        (SEGMENTS | {"resize_type": "fit_to_window"}, {"logits": np.zeros((1, 3, 8, 8))}, "Segmentation, whose"),
        (SEGMENTS, {"numbers": np.zeros((1, 8, 8))}, "Segmentation, whose"),
    ],
)
def test_other_answers_stay_tensors(info: dict[str, str], outputs: dict[str, Any], said: str, tmp_path: Path) -> None:
    options = options_of(tmp_path, info, outputs)
    assert (options.detections, options.labels) == (None, None)
    assert options.recipe_said == f"{said} outputs are returned as tensors"


def test_the_order_of_colors_is_not_guessed(tmp_path: Path) -> None:
    assert options_of(tmp_path, INFO | {"mean_values": "103.53 116.28 123.675"}, CLASSES).channels == "bgr"
    unknown = INFO | {"mean_values": ""}
    assert options_of(tmp_path, unknown | {"reverse_input_channels": "YES"}, CLASSES).channels == "rgb"
    with pytest.raises(RecipeError, match="tell the order of colors; set channels to 'rgb' or 'bgr'"):
        options_of(tmp_path, unknown, CLASSES)
    own = options_of(tmp_path, unknown, CLASSES, channels="bgr")
    assert (own.channels, own.labels) == ("bgr", ("cat", "small_dog"))


def test_other_irs_have_no_such_recipe(tmp_path: Path) -> None:
    assert options_of(tmp_path, {}, CLASSES).recipe_source == ""
    embedded = options_of(tmp_path, INFO | {"embedded_processing": "True"}, CLASSES)
    assert (embedded.scaling, embedded.labels) == ("none", None)


@each(
    ("changes", "words"),
    [
        ({"resize_type": "crop"}, "resize_type: expected standard, fit_to_window, fit_to_window_letterbox, got 'crop'"),
        ({"intensity_mode": "window"}, "intensity_mode: expected none, got 'window'"),
        ({"interpolation_mode": "CUBIC"}, "interpolation_mode: expected LINEAR, got 'CUBIC'"),
        ({"model_type": "YOLOX"}, "model_type: expected .*, got 'YOLOX', which prepares images in its own way"),
        ({"mean_values": "1 b 3"}, "mean_values: could not convert string to float: 'b'"),
        ({"resize_type": "fit_to_window", "pad_value": "x"}, "pad_value: invalid literal"),
        ({"scale_values": "0 1 1"}, "std: expected numbers other than 0"),
        ({"labels": "a b c d"}, "expected a label for each of the 2 classes"),
    ],
)
def test_what_cannot_be_followed_is_a_sentence(changes: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=words):
        options_of(tmp_path, INFO | changes, CLASSES)
