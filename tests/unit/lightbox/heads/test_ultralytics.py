"""Which outputs can be of Ultralytics' tasks, and how many classes they have."""

from __future__ import annotations

from typing import Any

import pytest

from lightbox.heads import FORMS, parts_of, shapes_problem
from lightbox.model.options import DetectionsName, ModelOptions

MAPS = {"output1": (1, 32, 160, 160)}


def of(form: DetectionsName, keypoints: tuple[int, int] | None = None) -> ModelOptions:
    return ModelOptions(detections=form, keypoints=keypoints or ((17, 3) if form == "ultralytics-pose" else None))


@pytest.mark.parametrize(
    ("form", "shapes", "classes"),
    [
        ("ultralytics", {"output0": (1, 84, 8400)}, [80]),
        ("ultralytics-segment", {"output0": (1, 116, 8400), **MAPS}, [80]),
        ("ultralytics-segment", {**MAPS, "output0": (1, 116, 8400)}, [80]),
        ("ultralytics-segment", {"output0": (None, None, None), "output1": (None, 32, None, None)}, []),
        ("ultralytics-segment", {"output0": (1, 300, 38), **MAPS}, []),
        ("ultralytics-pose", {"output0": (1, 56, 8400)}, [1]),
        ("ultralytics-pose", {"output0": (1, 300, 57)}, []),
        ("ultralytics-obb", {"output0": (1, 20, 8400)}, [15]),
        ("ultralytics-obb", {"output0": (1, 300, 7)}, []),
        ("ultralytics-obb", {"output0": None}, []),
    ],
)
def test_outputs_of_each_task(form: DetectionsName, shapes: dict[str, Any], classes: list[int]) -> None:
    assert shapes_problem(of(form), shapes) is None
    assert list(FORMS[form].classes(shapes, of(form))) == classes
    assert len(parts_of(of(form))) == (form != "ultralytics")


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        ("ultralytics-segment", {"output0": (1, 116, 8400)}),
        ("ultralytics-segment", {"output0": (1, 36, 8400), **MAPS}),  # no class
        ("ultralytics-segment", {"output0": (2, 116, 8400), **MAPS}),
        ("ultralytics-segment", {"output0": (1, 32, 160, 160), **MAPS}),
        ("ultralytics-segment", {"output0": (1, 116, 8400), "output1": (1, 160, 160, 116)}),  # channels last
        ("ultralytics-pose", {"output0": (1, 55, 8400)}),
        ("ultralytics-pose", {"output0": (1, 300, 56)}),
        ("ultralytics-obb", {"output0": (1, 5, 8400)}),
        ("ultralytics-obb", {"output0": (1, 300, 8)}),
    ],
)
def test_outputs_of_no_such_task(form: DetectionsName, shapes: dict[str, Any]) -> None:
    assert "the model gives output0" in str(shapes_problem(of(form), shapes))


def test_poses_need_the_number_of_keypoints() -> None:
    assert "expected the option keypoints" in str(FORMS["ultralytics-pose"].problem(["y"], {}, ModelOptions()))
