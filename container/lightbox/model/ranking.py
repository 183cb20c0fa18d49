"""Models with named results: classes to rank for ``labels`` and ``top_k``, objects for ``detections``."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TypeVar

from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec, describe_shape, image_input

BOXES, CLASSES, SCORES, NUMBER = "detection_boxes", "detection_classes", "detection_scores", "num_detections"
"""The outputs of a detector in TensorFlow's object detection API; the last one is optional."""
_EXPECTED: Mapping[str, str] = {
    "ultralytics": "one output of [N, 4+C, A] or [N, K, 6]",
    "detr": "two outputs, logits of [N, Q, C+1] and boxes of [N, Q, 4]",
    "tf": f"{BOXES} of [N, K, 4], {CLASSES} and {SCORES} of [N, K]",
}
T = TypeVar("T")
Size = TypeVar("Size", int, int | None)
_PAIR_OF_DETR = 2
END_TO_END = 6
_NAMED_AS_BOXES, _NAMED_AS_CLASSES = re.compile("box|det", re.I), re.compile("logit|label|class|cls|score", re.I)
_OF_RF_DETR = {"dets", "labels"}
SIGMOIDS = "each of its classes has a sigmoid: set the option activation to 'sigmoid'"
_OTHER_TASKS = {"obb": "rotated boxes", "pose": "poses", "segment": "masks", "classify": "classes of whole images"}
"""Ultralytics' tasks with other outputs than plain boxes."""
Shapes = Mapping[str, tuple[int | None, ...] | None]
MOST_LITERAL = 1 << 18
"""Most characters of a literal of Python in metadata: the parser takes some hundred bytes for each."""
DEFAULT_TOP_K = 5
MOST_OBJECTS = 300


def is_detector(outputs: Collection[str]) -> bool:
    """Return whether outputs of these names are a detector's."""
    return {BOXES, CLASSES, SCORES} <= {*plainly(dict.fromkeys(outputs))}


def plainly(outputs: Mapping[str, T]) -> dict[str, T]:
    """Return outputs by name without TensorFlow's ``:0``, which converters keep."""
    return {name.removesuffix(":0"): item for name, item in outputs.items()}


def has_objects(options: ModelOptions, signature: SignatureSpec, outputs: Collection[str]) -> bool:
    """Return whether these outputs have the form of ``detections``; another signature may have others."""
    chosen = {name: signature.outputs[name] for name in outputs}
    return options.detections is not None and _objects_problem(options, signature, chosen) is None


def ranking_problem(options: ModelOptions, signature: SignatureSpec) -> str | None:
    """Return why a model has no classes to rank or objects to find, or another number than labels; None if it has."""
    outputs = signature.outputs
    chosen = {name: spec for name, spec in outputs.items() if not options.outputs or name in options.outputs}
    if options.detections is not None:
        return _objects_problem(options, signature, chosen)
    if is_detector(chosen):
        return None
    spec = next(iter(chosen.values())) if len(chosen) == 1 else None
    if spec is None or (spec.shape is not None and len(shape_of_classes(spec.shape)) != 2):
        actual = ", ".join(
            f"{name} {describe_shape(item.shape) if item.shape is not None else '(any shape)'}"
            for name, item in chosen.items()
        )
        return (
            f"expected one output of [batch, classes], or {BOXES}, {CLASSES} and {SCORES}; the model gives {actual}; "
            "name one in outputs"
        )
    if (classes := other_classes(options, spec)) is not None:
        labels = options.labels or ()
        empty = f", of which {labels.count('')} are empty" if "" in labels else ""
        return f"expected a label for each of the {classes} classes of the output {spec.name}, got {len(labels)}{empty}"
    return None


def shape_of_classes(shape: tuple[Size, ...]) -> tuple[Size | int, ...]:
    """Return an output's shape without further dimensions of 1: [batch, classes, 1, 1] is one of classes, too."""
    if len(shape) <= 2:
        return shape
    first, *others = shape
    return first, *([size for size in others if size != 1] or [1])


def other_classes(options: ModelOptions, spec: TensorSpec) -> int | None:
    """Return the number of classes of an output [batch, classes] if it declares another one than there are labels."""
    shape = shape_of_classes(spec.shape or ())
    classes = shape[1] if len(shape) == 2 else None
    return None if options.labels is None or classes == len(options.labels) else classes


def _objects_problem(options: ModelOptions, signature: SignatureSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    assert options.detections is not None
    wanted = image_input(signature)
    if wanted is None or wanted.encoded:
        takes = ", ".join(map(str, signature.inputs.values()))
        hint = "; set layout, which its shape leaves open" if signature.open_input else ""
        return f"expected a model that takes pixels, in which boxes can be placed; this one takes {takes}{hint}"
    if problem := _problem_in_notes(signature.notes) or detections_problem(options.detections, outputs):
        return problem
    if options.activation is None and options.detections == "detr" and set(outputs) == _OF_RF_DETR:
        return f"the outputs {' and '.join(sorted(outputs))} are those of RF-DETR; {SIGMOIDS}"
    shapes = {name: spec.shape for name, spec in outputs.items()}
    return classes_problem(options, shapes, _names_in(signature.notes))


def _problem_in_notes(notes: Mapping[str, str]) -> str | None:
    """Return why a file that Ultralytics has written holds no plain boxes, None if it may."""
    task = "pose" if "kpt_shape" in notes else notes.get("task", "")
    what = _OTHER_TASKS.get(task, "RT-DETR's boxes" if "RTDETR" in notes.get("head", "") else None)
    if what is None:
        return None
    return f"expected a model that finds plain boxes; by its metadata it gives {what}, which cannot be decoded yet"


def _names_in(notes: Mapping[str, str]) -> int | None:
    """Return the number of names of classes in Ultralytics' metadata, None if there are none."""
    if len(names := notes.get("names", "")) > MOST_LITERAL:
        return None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return len(literal_eval(names)) or None
    return None


def classes_problem(options: ModelOptions, shapes: Shapes, names: int | None = None) -> str | None:
    """Return why outputs have another number of classes than there are labels or ``names`` in a file, else None.

    Rows of other values, such as an angle, look like further classes. With a sigmoid each, none is for "no object".
    """
    assert options.detections is not None
    classes = classes_of(options.detections, shapes)
    more = options.detections == "detr" and options.activation == "sigmoid"
    for count, of in ((names, "its metadata have"), (options.labels and len(options.labels), "got")):
        if classes is not None and count is not None and count not in (classes, classes + more):
            hint = "" if options.detections == "detr" else "; rows of other values, such as an angle, look like classes"
            return f"expected a label for each of the {classes} classes, {of} {count}{hint}"
    return None


def detections_problem(form: DetectionsName, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why outputs cannot be of a form, by their known shapes; None if they can."""
    shapes = {name: spec.shape for name, spec in outputs.items()}
    if any(spec.is_string for spec in outputs.values()):
        return form_sentence(form, shapes)
    return form_problem(form, shapes)


def classes_of(form: DetectionsName, shapes: Shapes) -> int | None:
    """Return the number of classes of such outputs, None if their shapes leave it open."""
    if form == "ultralytics":
        (shape,) = shapes.values()
        return shape[1] - 4 if shape and shape[1] is not None and shape[2] not in (None, END_TO_END) else None
    names = names_of_detr(shapes) if form == "detr" else None
    logits = shapes[names[0]] if names else None
    return logits[2] - 1 if logits and logits[2] is not None else None


def form_problem(form: DetectionsName, shapes: Shapes) -> str | None:
    """Return why outputs of these shapes cannot be of a form; None if they can."""
    if form == "tf":
        of_objects = [plainly(shapes).get(name, ()) for name in (BOXES, CLASSES, SCORES)]
        wanted = ((None, None, 4), (None, None), (None, None))
        fits = all(map(_can_be, of_objects, wanted)) and _are_of_the_same(of_objects)
    elif form == "detr":
        fits = len(shapes) == _PAIR_OF_DETR and all(_can_be(shape, (None, None, None)) for shape in shapes.values())
        fits = fits and any(_can_be(shape, (None, None, 4)) for shape in shapes.values())
        fits = fits and _are_of_the_same(list(shapes.values()))
        is_open = any(shape is None or shape[-1] is None for shape in shapes.values())
        fits = fits and (is_open or names_of_detr(shapes) is not None)
    else:
        shape = next(iter(shapes.values())) if len(shapes) == 1 else ()
        fits = _can_be(shape, (None, None, END_TO_END)) or (_can_be(shape, (None, None, None)) and _is_raw(shape))
    return None if fits else form_sentence(form, shapes)


def _is_raw(shape: tuple[int | None, ...] | None) -> bool:
    """Return whether there can be a row for each box side and class, and a column for each of many anchors.

    With fewer anchors than rows it is another form: end-to-end masks or poses, or YOLOv5's.
    """
    rows, anchors = shape[1:] if shape is not None else (None, None)
    return rows is None or (rows > 4 and (not anchors or anchors >= rows))


def _are_of_the_same(shapes: Sequence[tuple[int | None, ...] | None]) -> bool:
    """Return whether outputs can have a row for each object of the same images: equal first two dimensions."""
    leading = [shape[:2] for shape in shapes if shape is not None]
    return all(_can_be(one, other) for one, other in combinations(leading, 2))


def _can_be(shape: tuple[int | None, ...] | None, wanted: tuple[int | None, ...]) -> bool:
    return shape is None or (
        len(shape) == len(wanted)
        and all(one is None or other is None or one == other for one, other in zip(shape, wanted, strict=True))
    )


def form_sentence(form: DetectionsName, shapes: Shapes) -> str:
    """Return a form's expected outputs and the actual ones."""
    given = ", ".join(
        f"{name} {describe_shape(shape) if shape is not None else '(any shape)'}" for name, shape in shapes.items()
    )
    return f"expected {_EXPECTED[form]} for {form!r}; the model gives {given}"


def names_of_detr(shapes: Shapes) -> tuple[str, str] | None:
    """Return the names of the logits and of the boxes, which end in a dimension of 4 and, if both do, are named so.

    None if there are no boxes, or if neither shapes nor names tell.
    """
    boxes = [name for name, shape in shapes.items() if _can_be(shape, (None, None, 4))]
    if len(boxes) == _PAIR_OF_DETR:
        boxes = [name for name in boxes if _NAMED_AS_BOXES.search(name) and not _NAMED_AS_CLASSES.search(name)] or [
            name for name in boxes if not _NAMED_AS_CLASSES.search(name)
        ]
    return (next(name for name in shapes if name != boxes[0]), boxes[0]) if len(boxes) == 1 else None
