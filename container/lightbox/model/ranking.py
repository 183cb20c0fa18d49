"""Models with named results: classes to rank for ``labels`` and ``top_k``, objects for ``detections``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
_PAIR_OF_DETR = 2
END_TO_END = 6
Shapes = Mapping[str, tuple[int | None, ...] | None]
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
    if spec is None or (spec.shape is not None and len(spec.shape) != 2):
        given = ", ".join(
            f"{name} {describe_shape(item.shape) if item.shape is not None else '(any shape)'}"
            for name, item in chosen.items()
        )
        return (
            f"expected one output of [batch, classes], or {BOXES}, {CLASSES} and {SCORES}; the model gives {given}; "
            "name one in outputs"
        )
    classes = spec.shape[1] if spec.shape is not None else None
    count = len(options.labels) if options.labels is not None else None
    if classes is not None and count is not None and count != classes:
        return f"expected a label for each of the {classes} classes of the output {spec.name}, got {count}"
    return None


def _objects_problem(options: ModelOptions, signature: SignatureSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    assert options.detections is not None
    wanted = image_input(signature)
    if wanted is None or wanted.encoded:
        takes = ", ".join(map(str, signature.inputs.values()))
        hint = "; set layout, which its shape leaves open" if signature.open_input else ""
        return f"expected a model that takes pixels, in which boxes can be placed; this one takes {takes}{hint}"
    if problem := detections_problem(options.detections, outputs):
        return problem
    classes = classes_of(options.detections, outputs)
    count = len(options.labels) if options.labels is not None else None
    if classes is not None and count is not None and count != classes:
        return f"expected a label for each of the {classes} classes, got {count}"
    return None


def detections_problem(form: DetectionsName, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why outputs cannot be of a form, by their known shapes; None if they can."""
    shapes = {name: spec.shape for name, spec in outputs.items()}
    if any(spec.is_string for spec in outputs.values()):
        return form_sentence(form, shapes)
    return form_problem(form, shapes)


def classes_of(form: DetectionsName, outputs: Mapping[str, TensorSpec]) -> int | None:
    """Return the number of classes of such outputs, None if their shapes leave it open."""
    shapes = {name: spec.shape for name, spec in outputs.items()}
    if form == "ultralytics":
        (shape,) = shapes.values()
        return shape[1] - 4 if shape and shape[1] is not None and shape[2] not in (None, END_TO_END) else None
    logits = shapes[names_of_detr(shapes)[0]] if form == "detr" else None
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
    """Return whether outputs can have a row for each object of the same pictures: equal first two dimensions."""
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


def names_of_detr(shapes: Shapes) -> tuple[str, str]:
    """Return the names of the logits and of the boxes, which end in a dimension of 4 or are named so."""
    one, other = shapes
    if _can_be(shapes[one], (None, None, 4)) and ("box" in one or not _can_be(shapes[other], (None, None, 4))):
        return other, one
    return one, other
