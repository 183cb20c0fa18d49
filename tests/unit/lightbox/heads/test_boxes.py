"""Raw outputs of detectors become objects; suppression matches the textbook algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.base.errors import ModelFailed
from lightbox.heads import find_objects, outputs_problem, ranking_problem
from lightbox.heads.objects import Objects
from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from support.parameters import each

SIZE = (640, 480)
Row = tuple[int, float, list[float]]


def found(form: DetectionsName, limits: dict[str, Any] | None = None, **outputs: Any) -> list[list[Row]]:
    arrays = {name: np.asarray(value, getattr(value, "dtype", np.float32)) for name, value in outputs.items()}
    return [listed(objects) for objects in find_objects(arrays, SIZE, ModelOptions(detections=form, **limits or {}))]


def listed(objects: Objects) -> list[Row]:
    assert objects.boxes.dtype == objects.scores.dtype == np.float32
    return [
        (int(number), round(float(score), 4), [round(float(side), 3) for side in box])
        for number, score, box in zip(*objects[:3], strict=True)
    ]


def yolo(*anchors: list[float]) -> Any:
    """Return anchors in the form's layout. Added anchors without a score make more anchors than rows."""
    nothing = [[*anchors[0][:4], *[0.0] * (len(anchors[0]) - 4)]] * 7
    return np.array([[*anchors, *nothing]], np.float32).transpose(0, 2, 1)


def test_the_best_class_of_an_anchor_counts_and_overlaps_are_one_object() -> None:
    output = yolo(
        [100, 100, 40, 20, 0.1, 0.9],
        [102, 101, 40, 20, 0.0, 0.8],  # the same object
        [102, 101, 40, 20, 0.7, 0.6],  # another class
        [300, 200, 10, 10, 0.25, 0.2],  # not above the threshold
    )
    assert found("ultralytics", output0=output) == [
        [(1, 0.9, [80, 90, 120, 110]), (0, 0.7, [82, 91, 122, 111])],
    ]
    agnostic = found("ultralytics", {"class_agnostic": True}, output0=output)
    assert agnostic == [[(1, 0.9, [80, 90, 120, 110])]]
    assert len(found("ultralytics", {"iou_threshold": 0.99}, output0=output)[0]) == 3
    assert len(found("ultralytics", {"score_threshold": 0.2}, output0=output)[0]) == 3
    assert len(found("ultralytics", {"top_k": 1}, output0=output)[0]) == 1


def test_the_end_to_end_form_has_corners_and_no_suppression() -> None:
    rows = [[10, 20, 30, 40, 0.5, 2], [10, 20, 30, 40, 0.9, 2], [0, 0, 0, 0, 0, 0]]
    assert found("ultralytics", y=np.array([rows], np.float32)) == [
        [(2, 0.9, [10, 20, 30, 40]), (2, 0.5, [10, 20, 30, 40])]
    ]


def test_exports_for_litert_have_fractions_of_the_input() -> None:
    output = yolo([0.5, 0.5, 0.5, 0.25, 0.9], [0.9, 0.9, 0.1, 0.1, 0.1])
    assert found("ultralytics", y=output) == [[(0, 0.9, [160, 180, 480, 300])]]
    rows = np.array([[[0.25, 0.5, 0.5, 1, 0.9, 1]] + [[0] * 6] * 2], np.float32)
    assert found("ultralytics", y=rows) == [[(1, 0.9, [160, 240, 320, 480])]]


def test_each_row_of_a_batch_is_a_picture_of_its_own() -> None:
    first, second = yolo([0.5, 0.5, 0.5, 0.25, 0.9]), yolo([100, 100, 40, 20, 0.5])
    assert found("ultralytics", y=np.concatenate([first, second])) == [
        [(0, 0.9, [160, 180, 480, 300])],
        [(0, 0.5, [80, 90, 120, 110])],
    ]


def test_tensorflows_boxes_are_fractions_with_the_upper_side_first() -> None:
    outputs: dict[str, Any] = {
        "detection_boxes": np.array([[[0.25, 0.5, 0.5, 1.0], [0, 0, 1, 1], [0, 0, 1, 1]]], np.float32),
        "detection_classes": np.array([[3, 1, 2]], np.float32),
        "detection_scores": np.array([[0.5, 0.9, 0.8]], np.float32),
    }
    assert [number for number, *_ in found("tf", **outputs)[0]] == [1, 2, 3]
    counted = found("tf", num_detections=np.array([2], np.float32), **outputs)
    assert counted == [[(1, 0.9, [0, 0, 640, 480]), (3, 0.5, [320, 120, 640, 240])]]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats(dtype: Any) -> None:
    assert found("ultralytics", y=yolo([100, 100, 40, 20, 0.5]).astype(dtype)) == [[(0, 0.5, [80, 90, 120, 110])]]


def test_what_is_no_number_is_no_object() -> None:
    nan, infinite = float("nan"), float("inf")
    output = yolo([100, 100, 40, 20, nan], [nan, 100, 40, 20, 0.9], [100, infinite, 40, 20, 0.8], [9, 9, 2, 2, 0.5])
    assert found("ultralytics", y=output) == [[(0, 0.5, [8, 8, 10, 10])]]
    rows = np.array([[[nan, 0, 1, 1, 0.9, 0], [0, 0, 1, 1, nan, 0]]], np.float32)
    assert found("ultralytics", y=rows) == [[]]
    rows = np.array([[[0, 0, 9, 9, 0.9, nan], [0, 0, 9, 9, 0.8, infinite], [0, 0, 9, 9, 0.7, 1]]], np.float32)
    assert found("ultralytics", y=rows) == [[(1, 0.7, [0, 0, 9, 9])]]


@each(("count", "objects"), [(float("nan"), 0), (-1, 0), (0, 0), (1, 1), (9, 2), (float("inf"), 2), (float("-inf"), 0)])
def test_a_count_of_objects_that_is_none(count: float, objects: int) -> None:
    outputs: dict[str, Any] = {
        "detection_boxes": np.array([[[0, 0, 1, 1], [0, 0, 1, 1]]], np.float32),
        "detection_classes": np.array([[3, 1]], np.float32),
        "detection_scores": np.array([[0.5, 0.9]], np.float32),
    }
    assert len(found("tf", num_detections=np.array([count], np.float32), **outputs)[0]) == objects


def test_a_count_for_each_picture() -> None:
    shapes = {"detection_boxes": (2, 3, 4), "detection_classes": (2, 3), "detection_scores": (2, 3)}
    outputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ModelFailed, match=r"expected num_detections of \[2\], one for each picture; the model gives 1"):
        find_objects({**outputs, "num_detections": np.zeros(1, np.float32)}, SIZE, ModelOptions(detections="tf"))


@each(
    ("form", "outputs"),
    [
        ("ultralytics", {"y": np.zeros((1, 84, 0))}),
        ("ultralytics", {"y": np.zeros((1, 0, 6))}),
        ("detr", {"logits": np.zeros((1, 0, 92)), "pred_boxes": np.zeros((1, 0, 4))}),
        (
            "tf",
            {
                "detection_boxes": np.zeros((1, 0, 4)),
                "detection_classes": np.zeros((1, 0)),
                "detection_scores": np.zeros((1, 0)),
            },
        ),
    ],
)
def test_a_model_that_proposes_nothing(form: DetectionsName, outputs: dict[str, Any]) -> None:
    assert found(form, **outputs) == [[]]
    assert found(form, **{name: array[:0] for name, array in outputs.items()}) == []


@each(
    ("form", "shapes", "said"),
    [
        ("ultralytics", {"y": (1, 84)}, "expected one output of [N, 4+C, A] or [N, K, 6] for 'ultralytics'"),
        ("ultralytics", {"y": (1, 4, 8400)}, "the model gives y [1,4,8400]"),
        ("ultralytics", {"y": (1, 300, 57)}, "the model gives y [1,300,57]"),  # poses, end to end
        ("ultralytics", {"y": (1, 116, 8400), "masks": (1, 32, 160, 160)}, "y [1,116,8400], masks [1,32,160,160]"),
        ("detr", {"logits": (1, 100, 92)}, "expected two outputs, logits of [N, Q, C+1] and boxes of [N, Q, 4]"),
        ("detr", {"logits": (1, 100, 92), "boxes": (1, 100, 5)}, "boxes [1,100,5]"),
        ("tf", {"detection_boxes": (1, 9, 4), "detection_scores": (1, 9)}, "expected detection_boxes of [N, K, 4]"),
        ("detr", {"logits": (1, 100, 92), "boxes": (1, 90, 4)}, "logits [1,100,92], boxes [1,90,4]"),
        ("detr", {"logits": (2, 100, 92), "boxes": (1, 100, 4)}, "logits [2,100,92], boxes [1,100,4]"),
        (
            "tf",
            {"detection_boxes": (1, 9, 4), "detection_scores": (1, 8), "detection_classes": (1, 9)},
            "detection_scores [1,8]",
        ),
        ("tf", {"detection_boxes": (1, 4), "detection_scores": (1,), "detection_classes": (1,)}, "[1,4]"),
    ],
)
def test_outputs_of_another_shape(form: DetectionsName, shapes: dict[str, tuple[int, ...]], said: str) -> None:
    specs = {name: TensorSpec(name, "float32", shape) for name, shape in shapes.items()}
    problem = outputs_problem(ModelOptions(detections=form), specs)
    assert problem is not None
    assert said in problem
    with pytest.raises(ModelFailed) as failed:
        find_objects(
            {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, SIZE, ModelOptions(detections=form)
        )
    assert failed.value.message == f"detections: {problem}"


def test_scores_that_are_none_and_boxes_of_another_kind() -> None:
    poses = yolo([100, 100, 40, 20, 0.9, 320.0])
    with pytest.raises(ModelFailed, match=r"expected scores of 0 to 1 for 'ultralytics'.* gives 320"):
        find_objects({"y": poses}, SIZE, ModelOptions(detections="ultralytics"))
    centers = np.array([[[0.5, 0.5, 0.1, 0.2, 0.9, 1], [0.6, 0.3, 0.2, 0.1, 0.8, 1], [0, 0, 0, 0, 0, 0]]], np.float32)
    with pytest.raises(ModelFailed, match="expected corners of boxes"):
        find_objects({"y": centers}, SIZE, ModelOptions(detections="ultralytics"))


def test_texts_are_no_boxes() -> None:
    assert (
        outputs_problem(ModelOptions(detections="ultralytics"), {"y": TensorSpec("y", "string", (1, 9, 9))}) is not None
    )
    with pytest.raises(ModelFailed, match="expected one output"):
        find_objects({"y": np.array([[[b"a"]]], object)}, SIZE, ModelOptions(detections="ultralytics"))


def by_the_textbook(rows: list[Row], limits: ModelOptions) -> list[Row]:
    """Take the best box, drop the boxes that overlap it, and repeat: in plain Python."""

    def overlap(one: list[float], other: list[float]) -> float:
        def area(box: list[float]) -> float:
            return (box[2] - box[0]) * (box[3] - box[1])

        width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
        height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
        shared = width * height
        together = area(one) + area(other) - shared
        return shared / together if together else 0.0

    left = sorted((row for row in rows if row[1] > limits.score_threshold), key=lambda row: -row[1])
    kept: list[Row] = []
    while left and len(kept) < (limits.top_k or 300):
        best = left.pop(0)
        kept.append(best)
        left = [
            row
            for row in left
            if overlap(best[2], row[2]) <= limits.iou_threshold or not (limits.class_agnostic or row[0] == best[0])
        ]
    return kept


FAR_AWAY = [500.0, 500, 0, 0, 0, 0, 0]
"""An anchor without a score that shows that boxes are in pixels. More than six anchors exclude the end-to-end form."""
corner, side = st.integers(0, 40), st.integers(0, 24)
boxes = st.tuples(corner, corner, side, side, st.integers(0, 2), st.integers(0, 16))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(boxes, max_size=40),
    st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]),
    st.booleans(),
    st.sampled_from([1, 3, 300]),
)
def test_suppression_is_the_textbooks(
    drawn: list[tuple[int, ...]], iou: float, class_agnostic: bool, most: int
) -> None:
    """Whole numbers and halves are exact, so overlaps equal to the threshold and equal scores occur too."""
    limits: dict[str, Any] = {"iou_threshold": iou, "class_agnostic": class_agnostic, "top_k": most}
    anchors, rows = [FAR_AWAY], []
    for left, top, wide, high, number, score in drawn:
        scores = [0.0, 0, 0]
        scores[number] = score / 16
        anchors.append([left + wide / 2, top + high / 2, float(wide), float(high), *scores])
        rows.append((number, score / 16, [float(left), float(top), float(left + wide), float(top + high)]))
    assert found("ultralytics", limits, y=yolo(*anchors)) == [
        [(number, round(score, 4), box) for number, score, box in by_the_textbook(rows, ModelOptions(**limits))]
    ]


def test_all_anchors_of_a_large_input_in_bounded_time_and_memory() -> None:
    """All 33,600 anchors pass and none overlap: no array grows with the square of their number."""
    count = 33600
    places = np.arange(count, dtype=np.float32)
    output = np.stack([places * 4, places * 4, *np.full((2, count), 2), *np.full((80, count), 0.5)])[None]
    (objects,) = find_objects({"y": output.astype(np.float32)}, SIZE, ModelOptions(detections="ultralytics"))
    assert len(objects.scores) == 300


@pytest.mark.parametrize(
    ("shape", "hint"), [((None,) * 4, "; set layout, which its shape leaves open"), ((None, 10), ""), (None, "")]
)
def test_a_model_whose_input_is_no_picture(shape: tuple[int | None, ...] | None, hint: str) -> None:
    taken = TensorSpec("x", "float32" if shape else "string", shape)
    signature = SignatureSpec("net", 1, "s", {"x": taken}, {"y": TensorSpec("y", "float32", (None, 84, 8400))})
    said = f"expected a model that takes pixels, in which boxes can be placed; this one takes {taken}{hint}"
    assert ranking_problem(ModelOptions(detections="ultralytics"), signature) == said


def test_scores_below_0_are_none() -> None:
    with pytest.raises(ModelFailed, match=r"expected scores of 0 to 1 for 'ultralytics'.* gives -0.7"):
        find_objects({"y": yolo([100, 100, 40, 20, 0.9, -0.7])}, SIZE, ModelOptions(detections="ultralytics"))
