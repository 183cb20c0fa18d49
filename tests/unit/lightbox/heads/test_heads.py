"""The results of a model that have names: objects or classes."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import strategies as st

from lightbox.heads import FORMS, outputs_problem, ranking_problem
from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from support.parameters import each

SIZE = (640, 480)


@each(
    ("form", "shapes", "classes"),
    [
        ("ultralytics", {"y": (None, 84, 8400)}, 80),
        ("ultralytics", {"y": (1, 300, 6)}, None),
        ("ultralytics", {"y": (None, None, None)}, None),
        ("ultralytics", {"y": None}, None),
        ("detr", {"logits": (1, 100, 92), "pred_boxes": (1, 100, 4)}, 91),
        ("detr", {"pred_boxes": (None, 100, 4), "logits": (None, 100, None)}, None),
        ("tf", {"detection_boxes": (1, 9, 4), "detection_scores": (1, 9), "detection_classes": (1, 9)}, None),
        ("tf", {"detection_boxes": (1, None, 4), "detection_scores": None, "detection_classes": (None, 9)}, None),
    ],
)
def test_what_can_be_of_a_form_and_how_many_classes_it_has(
    form: DetectionsName, shapes: dict[str, tuple[int | None, ...] | None], classes: int | None
) -> None:
    specs = {name: TensorSpec(name, "float32", shape) for name, shape in shapes.items()}
    options = ModelOptions(detections=form)
    assert outputs_problem(options, specs) is None
    assert next(iter(FORMS[form].classes(shapes, options)), None) == classes


corner, side = st.integers(0, 40), st.integers(0, 24)
boxes = st.tuples(corner, corner, side, side, st.integers(0, 2), st.integers(0, 16))
PIXELS = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", (1, 3, 640, 640))}, {})


@each(
    ("shape", "notes", "words"),
    [
        ((1, 20, 8400), {"task": "obb"}, "gives rotated boxes"),
        ((1, 300, 6), {"task": "obb", "end2end": "True"}, "gives rotated boxes"),
        ((1, 116, 8400), {"task": "segment"}, "gives masks"),
        ((1, 56, 8400), {"task": "pose"}, "gives poses"),
        ((1, 8, 8400), {"kpt_shape": "[1, 3]"}, "gives poses"),
        ((None, None, None), {"task": "pose"}, "gives poses"),
        ((1, 300, 6), {"task": "detect", "head": "RTDETRDecoder"}, "gives RT-DETR's boxes"),
        (
            (1, 20, 8400),
            {"names": str(dict.fromkeys(range(15), "x"))},
            "each of the 16 classes, .* 15; rows of other values",
        ),
        ((1, 20, 8400), {"task": "detect", "names": str(dict.fromkeys(range(16), "x"))}, None),
        (
            (1, 20, 8400),
            {"names": "['broken"},
            "expected labels, as no metadata .*; rows of other values",
        ),
        ((None, None, None), {"names": "{}"}, "expected labels"),
        ((1, 300, 6), {"names": str({0: "x"})}, None),
    ],
)
def test_what_a_files_metadata_say_counts(
    shape: tuple[int | None, ...], notes: dict[str, str], words: str | None
) -> None:
    outputs = {"y": TensorSpec("y", "float16", shape), "masks": TensorSpec("masks", "float32", (1, 32, 160, 160))}
    options = ModelOptions(detections="ultralytics", outputs=("y",))
    problem = ranking_problem(options, replace(PIXELS, outputs=outputs, notes=notes))
    assert problem is None if words is None else re.search(words, str(problem))
