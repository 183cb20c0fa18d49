"""The option ``activation``: logits become scores before they are ranked or boxed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightbox.codecs.top_k import ranked_rows
from lightbox.heads import ranking_problem
from lightbox.heads.activation import activated, are_probabilities, class_scores, warn_of_logits
from lightbox.model.options import ActivationName, DetectionsName, ModelOptions
from lightbox.model.presets import with_preset
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from support.parameters import each

LOGITS = np.array([[9.96, -3.2, 1.0], [0, 0, -1000]], np.float32)


def named(outputs: Mapping[str, Array], **options: Any) -> list[Any]:
    inputs = {"x": TensorSpec("x", "float32", (None, 3, 64, 64))}
    specs = {name: TensorSpec(name, str(array.dtype), array.shape) for name, array in outputs.items()}
    signature = SignatureSpec("net", 1, "s", inputs, specs)
    call = ModelCall(signature, {"x": np.zeros((1, 3, 64, 64), np.float32)})
    assert ranking_problem(ModelOptions(**options), signature) is None
    return [json.loads(row) for row in ranked_rows(outputs, ModelOptions(**options), call) or ()]


@each("dtype", [np.float16, np.float32, np.float64])
@each("activation", ["softmax", "sigmoid", "none", None])
def test_logits_become_scores(activation: ActivationName | None, dtype: Any) -> None:
    logits: Any = LOGITS.astype(dtype)
    powers = np.exp(logits.astype(np.float64))
    expected: Any = {"softmax": powers / powers.sum(1, keepdims=True), "sigmoid": powers / (1 + powers)}
    found: Any = activated(logits, activation)
    np.testing.assert_allclose(found, expected.get(str(activation), logits), rtol=1e-6)
    assert found.dtype == (np.float32 if activation in expected and dtype == np.float16 else dtype)


@each(
    ("scores", "expected"),
    [
        ([[0.2, 0.8]], True),
        ([[0.2, 0.8], [0.6, 0.7]], False),
        ([[-0.2, 1.2]], False),
        ([[9.96, -3.2]], False),
        ([[np.nan, 1]], False),
        (np.zeros((0, 3)), True),
    ],
)
def test_which_scores_are_probabilities(scores: Any, expected: bool) -> None:
    assert are_probabilities(np.array(scores, np.float32)) is expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_preset_makes_a_softmax_of_each_row_of_logits_by_itself(dtype: Any) -> None:
    """A row without numbers outside of 0 to 1 may come from a softmax or sigmoids."""
    rows: Any = np.array([[0.5, 0.25, 0.25], [9, -3, 1], [np.nan, 9, 1], [0.75, 0.5, 0.125], [0.5, 0.5, -2]], dtype)
    preset = ModelOptions(preset="timm")
    found = class_scores(rows, preset)
    softmax = activated(rows, "softmax")
    np.testing.assert_array_equal(found[[0, 2, 3]], rows[[0, 2, 3]])
    np.testing.assert_array_equal(found[[1, 4]], softmax[[1, 4]])
    for row, alone in zip(rows, found, strict=True):
        np.testing.assert_array_equal(class_scores(row[None], preset), alone[None])
    for chosen in ("softmax", "sigmoid", "none"):
        own = ModelOptions(preset="timm", activation=chosen)
        np.testing.assert_array_equal(class_scores(rows, own), activated(rows, chosen))
    assert class_scores(rows, ModelOptions(preset="timm", detections="tf")) is rows


def test_sigmoids_with_a_preset_of_logits_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_logits.cache_clear()
    ((found,),) = named({"y": np.array([[0.25]], np.float32)}, top_k=1, preset="timm")
    assert found["score"] == 0.25
    assert "set the option activation" in caplog.text


def test_scores_that_are_no_probabilities_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_logits.cache_clear()
    for options in ({"activation": "none"}, {"activation": "softmax"}, {}, {}):
        found = named({"y": LOGITS[:1]}, labels=("red", "green", "blue"), **options)
    assert found[0][0] == {"label": "red", "class": 0, "score": 9.96}
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "the scores of the model 'net' are no probabilities: set the option activation"
    )
    named({"y": np.array([[0.2, 0.8]], np.float32)}, top_k=1)
    assert len(caplog.messages) == 1


def test_a_preset_knows_its_librarys_logits() -> None:
    def may_give_logits(**given: Any) -> bool:
        return ModelOptions().model_copy(update=with_preset(given)).may_give_logits

    for preset in ("timm", "torchvision"):
        assert may_give_logits(preset=preset)
        assert not may_give_logits(preset=preset, activation="none")
        assert not may_give_logits(preset=preset, detections="tf")
    assert not may_give_logits(preset="keras-resnet") and not may_give_logits()


@pytest.mark.parametrize("form", ["ultralytics", "end_to_end", "detr", "tf", "raw_tf"])
def test_so_do_those_of_detectors(form: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_logits.cache_clear()
    detections: DetectionsName | None = {"end_to_end": "ultralytics", "raw_tf": None}.get(form, form)
    box, logit = [32.0, 32, 16, 16], 2.0
    if form == "ultralytics":
        outputs = {"y": np.array([[[*box, logit, -2]] + [[*box, -9, -9]] * 9], np.float32).transpose(0, 2, 1)}
    elif form == "end_to_end":
        outputs = {"y": np.array([[[8, 8, 40, 40, logit, 0], [0, 0, 1, 1, -9, 0]]], np.float32)}
    elif form == "detr":
        logits = np.full((1, 300, 3), -5, np.float32)
        logits[0, 0, 0] = logit
        outputs = {"labels": logits, "dets": np.full((1, 300, 4), 0.5, np.float32)}
    else:
        outputs = {
            "detection_boxes:0": np.array([[[0, 0, 1, 1]]], np.float32),
            "detection_classes:0": np.zeros((1, 1), np.float32),
            "detection_scores:0": np.full((1, 1), logit, np.float32),
        }
    options = {"labels": ("cat", "dog"), "detections": detections}
    ((found,),) = named(outputs, **options, activation="sigmoid")
    assert (found["label"], round(found["score"], 2)) == ("cat", 0.88)
    assert not caplog.messages
    if "tf" in form:
        assert named(outputs, **options)[0][0]["score"] == logit
        assert "no probabilities" in caplog.text


def test_the_boxes_of_rf_detr_are_found_with_a_sigmoid() -> None:
    for classes in (1, 3, 80, 90):
        logits, boxes = np.full((1, 300, classes + 1), -5, np.float32), np.full((1, 300, 4), 0.5, np.float32)
        logits[0, 0], boxes[0, :, 2:] = -2, 0.2
        logits[0, 0, 0] = 2
        for names in (("dets", "labels"), ("labels", "dets")):
            outputs = {name: boxes if name == "dets" else logits for name in names}
            for count in (classes, classes + 1):
                labels = tuple(map(str, range(count)))
                ((found,),) = named(outputs, detections="detr", activation="sigmoid", labels=labels)
                assert found["label"] == "0" and found["score"] == pytest.approx(0.88, abs=0.001)
                assert found["box"] == pytest.approx([25.6, 25.6, 38.4, 38.4], abs=1e-4)


def test_another_number_of_labels_is_refused_with_a_sigmoid_too() -> None:
    shapes = {"labels": (1, 300, 4), "dets": (1, 300, 4)}
    outputs = {name: TensorSpec(name, "float32", shape) for name, shape in shapes.items()}
    signature = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", (1, 3, 64, 64))}, outputs)
    options = ModelOptions(detections="detr", activation="sigmoid", labels=("a", "b"))
    assert "each of the 3 classes, got 2" in str(ranking_problem(options, signature))
    assert ranking_problem(options, replace(signature, outputs={})) is not None
