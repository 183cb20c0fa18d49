"""Which models the options ``labels`` and ``top_k`` are for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lightbox.model.options import ModelOptions
from lightbox.model.spec import TensorSpec, describe_shape

BOXES, CLASSES, SCORES, NUMBER = "detection_boxes", "detection_classes", "detection_scores", "num_detections"
"""The outputs of a detector, as TensorFlow's object detection names them; the last may be missing."""
DEFAULT_TOP_K = 5


def is_detector(outputs: Collection[str]) -> bool:
    """Whether outputs of these names are those of a detector."""
    return all(name in outputs for name in (BOXES, CLASSES, SCORES))


def ranking_problem(options: ModelOptions, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why a model with these outputs has no classes to rank, or not as many as labels; None where it has."""
    chosen = {name: spec for name, spec in outputs.items() if not options.outputs or name in options.outputs}
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
