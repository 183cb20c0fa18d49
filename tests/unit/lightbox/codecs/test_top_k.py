"""How labels and top_k change a prediction."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import ModelFailed
from lightbox.codecs.json_schemas import ranked_row
from lightbox.codecs.top_k import ranked_rows
from lightbox.heads import ranking_problem
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from support.parameters import each

PIXELS = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", (None, 480, 640, 3))}, {})
FINDS = replace(PIXELS, outputs={"y": TensorSpec("y", "float32", (None, 6, None))})
NUMBERS = ModelCall(PIXELS, {"x": np.zeros((1, 480, 640, 3), np.float32)})
NAMES = ("cat", 'a "dog"', "fox")


def rows(options: ModelOptions, **outputs: Array) -> Any:
    found = ranked_rows(outputs, options, NUMBERS)
    return None if found is None else [json.loads(row) for row in found]


def test_the_best_classes_come_first_with_their_names() -> None:
    scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32)
    assert rows(ModelOptions(labels=NAMES, top_k=2), y=scores) == [
        [{"label": 'a "dog"', "class": 1, "score": 0.7}, {"label": "fox", "class": 2, "score": 0.2}],
        [{"label": "cat", "class": 0, "score": 0.5}, {"label": 'a "dog"', "class": 1, "score": 0.25}],
    ]


@each(
    ("declared", "given"), [((None, 3, 1, 1), (2, 3, 1, 1)), ((None, 1, 3), (2, 1, 3)), ((None, 1, 1, 3), (2, 1, 1, 3))]
)
def test_classes_have_further_dimensions_of_1(declared: tuple[int | None, ...], given: tuple[int, ...]) -> None:
    spec, options = replace(PIXELS, outputs={"y": TensorSpec("y", "float32", declared)}), ModelOptions(labels=NAMES)
    assert ranking_problem(options, spec) is None
    scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32).reshape(given)
    plain, call = ranked_rows({"y": scores.reshape(2, 3)}, options, NUMBERS), replace(NUMBERS, signature=spec)
    assert ranked_rows({"y": scores}, options, call) == plain
    other = ModelOptions(labels=("a", "b"))
    assert "a label for each of the 3 classes" in str(ranking_problem(other, spec))


def test_five_unless_said() -> None:
    assert [len(row) for row in rows(ModelOptions(labels=NAMES), y=np.zeros((2, 3)))] == [3, 3]
    labels = tuple(map(str, range(8)))
    assert [item["class"] for item in rows(ModelOptions(labels=labels), y=np.zeros((1, 8)))[0]] == [0, 1, 2, 3, 4]


def test_what_is_no_number_comes_last() -> None:
    (row,) = ranked_rows({"y": np.array([[np.nan, -1, np.inf]], np.float32)}, ModelOptions(top_k=3), NUMBERS) or []
    assert row == b'[{"class":2,"score":Infinity},{"class":1,"score":-1.0},{"class":0,"score":NaN}]'


@pytest.mark.parametrize("least", [np.int8(-128), np.uint8(0)])
def test_the_least_integer_is_not_the_best(least: Any) -> None:
    scores = np.array([[least, 5]], least.dtype)
    assert [item["class"] for item in rows(ModelOptions(top_k=2), y=scores)[0]] == [1, 0]


def test_the_objects_of_a_detector() -> None:
    found = rows(
        ModelOptions(labels=("nothing", "cat", "dog"), top_k=2),
        detection_boxes=np.array([[[0, 0, 0.5, 0.5], [0.1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]]], np.float32),
        detection_classes=np.array([[1, 2, 90, 1]], np.float32),
        detection_scores=np.array([[0.5, 0.75, 0.25, 0.9]], np.float32),
        num_detections=np.array([3], np.float32),
        raw=np.zeros((1, 2)),
    )
    assert found == [
        [
            {"label": "dog", "class": 2, "score": 0.75, "box": [0.1, 0, 1, 1]},
            {"label": "cat", "class": 1, "score": 0.5, "box": [0, 0, 0.5, 0.5]},
        ]
    ]


def test_a_detector_that_found_nothing() -> None:
    outputs: dict[str, Array] = {
        "detection_boxes": np.zeros((1, 0, 4), np.float32),
        "detection_classes": np.zeros((1, 0), np.int64),
        "detection_scores": np.zeros((1, 0), np.float32),
    }
    assert rows(ModelOptions(top_k=2), **outputs) == [[]]


@each(("counted", "seen"), [(np.nan, 0), (-1, 0), (np.inf, 2), (1, 1)])
def test_a_detector_that_counts_what_is_no_number(counted: float, seen: int) -> None:
    outputs: dict[str, Array] = {
        "detection_boxes": np.zeros((1, 2, 4), np.float32),
        "detection_classes": np.zeros((1, 2), np.float32),
        "detection_scores": np.ones((1, 2), np.float32),
        "num_detections": np.array([counted], np.float32),
    }
    assert [len(row) for row in rows(ModelOptions(top_k=5), **outputs)] == [seen]


def test_each_class_has_a_label() -> None:
    with pytest.raises(ModelFailed, match="labels: expected one for each of the 2 classes, got 1"):
        rows(ModelOptions(labels=("cat",), top_k=1), y=np.array([[1, 0]]))


@each(("classes", "is_ranked"), [(3, True), (None, True), (4, False)])
def test_an_output_of_another_width_has_other_classes(classes: int | None, is_ranked: bool) -> None:
    """A caller may name a signature that gives features, which labels are not meant for."""
    signature = replace(PIXELS, outputs={"y": spec("y", None, classes)})
    options, width = ModelOptions(labels=NAMES), classes or len(NAMES)
    found = ranked_rows({"y": np.ones((1, width), np.float32)}, options, replace(NUMBERS, signature=signature))
    assert (found is not None) is is_ranked
    assert (ranked_row(signature, signature.outputs, options) is not None) is is_ranked


@pytest.mark.parametrize("suffix", ["", ":0"])
@pytest.mark.parametrize("detections", [None, "tf"])
def test_a_detector_that_counts_from_1_needs_a_label_for_the_background(detections: Any, suffix: str) -> None:
    outputs: dict[str, Array] = {
        "detection_boxes": np.array([[[0.1, 0.1, 0.5, 0.5]]], np.float32),
        "detection_classes": np.array([[3]], np.float32),
        "detection_scores": np.array([[0.9]], np.float32),
    }
    signature = replace(PIXELS, outputs={key + suffix: spec(key, *value.shape) for key, value in outputs.items()})
    assert ranking_problem(ModelOptions(labels=NAMES, detections=detections), signature) is None

    def answer(*labels: str) -> Any:
        options, given = ModelOptions(labels=labels, detections=detections), {k + suffix: v for k, v in outputs.items()}
        return json.loads((ranked_rows(given, options, replace(NUMBERS, signature=signature)) or [b""])[0])

    assert answer("background", *NAMES)[0]["label"] == "fox"
    with pytest.raises(ModelFailed, match=r"expected a name for the class 3, got 3 names .* line for the background"):
        answer(*NAMES)


@each(
    "outputs",
    [
        {"y": np.zeros(3)},
        {"y": np.zeros((1, 2, 3))},
        {"y": np.zeros((1, 3)), "z": np.zeros((1, 3))},
        {"y": np.zeros((1, 0))},
        {"y": np.array([[b"a"]], object)},
    ],
)
def test_other_outputs_stay_as_they_are(outputs: dict[str, Array]) -> None:
    assert rows(ModelOptions(top_k=2), **outputs) is None


def spec(name: str, *shape: int | None) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


@each(
    ("options", "outputs", "words"),
    [
        (ModelOptions(labels=NAMES), [spec("y", None, 3)], None),
        (ModelOptions(labels=NAMES), [spec("y", None, None)], None),
        (ModelOptions(top_k=2), [spec("y", None, 3)], None),
        (ModelOptions(labels=NAMES, outputs=("y",)), [spec("y", None, 3), spec("z", None)], None),
        (ModelOptions(labels=NAMES), [TensorSpec("y", "float32", None)], None),
        (
            ModelOptions(labels=NAMES),
            [spec("y", None, 10)],
            "a label for each of the 10 classes of the output y, got 3",
        ),
        (ModelOptions(top_k=2), [spec("y", None)], "expected one output of [batch, classes]"),
        (ModelOptions(top_k=2), [spec("y", None, 3), spec("z", None, 3)], "name one in outputs"),
    ],
)
def test_models_that_have_no_such_classes(options: ModelOptions, outputs: list[TensorSpec], words: str | None) -> None:
    problem = ranking_problem(options, replace(PIXELS, outputs={item.name: item for item in outputs}))
    assert problem is None if words is None else words in str(problem)


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ({"text": TensorSpec("text", "string", (None,))}, TensorSpec("y", "float32", (None, 6, None))),
        (PIXELS.inputs, TensorSpec("y", "float32", (None, 6))),
    ],
)
def test_another_signature_has_no_objects(inputs: dict[str, TensorSpec], output: TensorSpec) -> None:
    """A caller may name it. Only the default signature is checked at start."""
    signature = SignatureSpec("net", 1, "other", inputs, {"y": output})
    call = replace(NUMBERS, signature=signature)
    options, outputs = ModelOptions(detections="ultralytics"), {"y": np.zeros((1, 6, 9), np.float32)}
    assert ranked_rows(outputs, options, call) is None
    assert ranked_rows(outputs, options, replace(call, signature=FINDS)) == [b"[]"]


def test_objects_of_sizes_that_only_a_call_shows_need_a_label_for_each_class() -> None:
    call = replace(NUMBERS, signature=replace(FINDS, outputs={"y": spec("y", None, None, None)}))
    options = ModelOptions(detections="ultralytics", labels=NAMES)
    assert ranked_rows({"y": np.zeros((1, 7, 9), np.float32)}, options, call) == [b"[]"]
    with pytest.raises(ModelFailed, match="each of the 4 classes, got 3"):
        ranked_rows({"y": np.zeros((1, 8, 9), np.float32)}, options, call)
