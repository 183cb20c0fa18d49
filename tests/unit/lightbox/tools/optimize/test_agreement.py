"""How far two answers agree, by the form of the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from lightbox.tools.optimize.agreement import compared, most_possible, summary, with_class, with_objects
from support.parameters import each

BOX, FAR = [0, 0, 10, 10], [50, 50, 60, 60]
LEFT, RIGHT = {"size": [2, 4], "counts": [0, 4, 4]}, {"size": [2, 4], "counts": [4, 4]}


def thing(box: Sequence[float], score: float = 0.9, kind: int = 1, **more: Any) -> dict[str, Any]:
    return {"class": kind, "score": score, "box": box, **more}


@each(
    ("expected", "got", "agreement"),
    [
        ([0.1, 0.7, 0.2], [0.3, 0.4, 0.3], {"top-1": 1}),
        ([0.1, 0.7, 0.2], [0.5, 0.4, 0.1], {"top-1": 0}),
        ([5.0, -3.0, 2.0], [4.0, -9.0, 2.0], {"top-1": 1}),  # logits
        ([{"class": 3, "score": 0.9}], [{"class": 3, "score": 0.1}], {"top-1": 1}),
        ([{"class": 3, "score": 0.9}], [{"class": 4, "score": 0.9}], {"top-1": 0}),
        ([0.25] * 16, [0.25] * 15 + [-0.25], {"cosine": 0.875}),  # an embedding of length 1
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]], {"cosine": math.sqrt(0.5)}),
        ([1.0, 2.0], [1.0, 2.0, 3.0], {"cosine": 0}),
        ([[1, 1], [2, 2]], [[1, 2], [2, 2]], {"mask IoU": (1 / 2 + 2 / 3) / 2}),
        ([{"class": 0, "share": 0.5, "mask": LEFT}], [{"class": 0, "share": 0.5, "mask": LEFT}], {"mask IoU": 1}),
        ([{"class": 0, "share": 0.5, "mask": LEFT}], [{"class": 0, "share": 0.5, "mask": RIGHT}], {"mask IoU": 0}),
        (
            {"a": [0.9, 0.1], "embedding": [3.0, 4.0]},
            {"a": [0.2, 0.8], "embedding": [3.0, 4.0]},
            {"top-1": 0, "cosine": 1},
        ),
        ("text", "text", {"top-1": 1}),
        ([thing(BOX)], [thing(BOX, 0.2)], {"mAP": 1}),
        ([thing(BOX)], [thing(FAR)], {"mAP": 0}),
        ([thing(BOX)], [], {"mAP": 0}),
        ([thing(BOX)], [thing(BOX, kind=2)], {"mAP": 0}),
        ([thing(BOX)], [thing([0, 0, 10, 7.5])], {"mAP": 0.6}),  # IoU 0.75: six of ten thresholds
        ([thing(BOX)], [thing(FAR, 0.95), thing(BOX, 0.9)], {"mAP": 0.5}),
        ([thing(BOX, mask=LEFT)], [thing(BOX, mask=RIGHT)], {"mAP": 1, "mask mAP": 0}),
        ([thing(BOX, keypoints=[[1, 1], [9, 9]])], [thing(BOX, keypoints=[[1, 1], [9, 9]])], {"mAP": 1, "pose mAP": 1}),
        ([thing(BOX, keypoints=[[1, 1], [9, 9]])], [thing(BOX, keypoints=[[9, 9], [1, 1]])], {"mAP": 1, "pose mAP": 0}),
        (
            {
                "detection_boxes": [BOX, FAR],
                "detection_scores": [0.9, 0.1],
                "detection_classes": [1, 1],
                "num_detections": 1,
            },
            {
                "detection_boxes": [BOX, BOX],
                "detection_scores": [0.8, 0.1],
                "detection_classes": [1, 1],
                "num_detections": 1,
            },
            {"mAP": 1},
        ),
    ],
)
def test_the_agreement_of_an_answer(expected: Any, got: Any, agreement: dict[str, float]) -> None:
    assert summary([compared(expected, got)]) == pytest.approx(agreement)


def test_the_name_of_an_output_tells_vectors_from_scores() -> None:
    assert summary([compared([3.0, 4.0], [3.0, 4.0], "image_embeds")]) == pytest.approx({"cosine": 1})


def test_objects_count_over_all_pictures() -> None:
    records = [compared([thing(BOX)], [thing(BOX, 0.9)]), compared([], [thing(BOX, 0.95)])]
    assert summary(records) == pytest.approx({"mAP": 0.5})  # the false one is the surer
    assert math.isnan(summary([compared([], [])])["mAP"])


def test_what_can_still_be_reached() -> None:
    records = [{"top-1": 1.0}, {"top-1": 0.0}]
    assert most_possible(records, 10) == pytest.approx(0.9)
    assert most_possible([compared([thing(BOX)], [])], 10) == 1


def test_what_is_true_of_a_picture() -> None:
    assert with_class([0.1, 0.9], 1, "cat") == 1
    assert with_class([{"class": 1, "label": "cat", "score": 0.9}], -1, "cat") == 1
    assert with_class([{"class": 1, "score": 0.9}], 0, "dog") == 0
    assert with_class([[1, 2], [3, 4]], 0, "dog") is None
    truth = [{"class": 0, "label": "cat", "box": BOX}]
    assert summary([with_objects([thing(BOX, kind=17, label="cat")], truth)]) == {"mAP": 1}
    assert summary([with_objects([thing(BOX, kind=0)], truth)]) == {"mAP": 1}
    assert summary([with_objects([thing(BOX, kind=17, label="dog")], truth)]) == {"mAP": 0}
