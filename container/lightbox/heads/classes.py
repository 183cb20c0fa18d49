"""Classes of whole images: one output of [batch, classes]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from lightbox.heads.form import described
from lightbox.model.options import ModelOptions
from lightbox.model.spec import TensorSpec
from lightbox.model.text_vectors import read_vectors

DEFAULT_TOP_K = 5
Size = TypeVar("Size", int, int | None)


def classes_of_images_problem(options: ModelOptions, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why outputs are no classes to rank, or another number than labels; None if they are."""
    spec = next(iter(outputs.values())) if len(outputs) == 1 else None
    if spec is None or (spec.shape is not None and len(shape_of_classes(spec.shape)) != 2):
        given = described({name: item.shape for name, item in outputs.items()})
        return (
            "expected one output of [batch, classes], or detection_boxes, detection_classes and detection_scores; the "
            f"model gives {given}; name one in outputs"
        )
    if options.text_vectors is not None:
        texts, sizes = read_vectors(Path(options.text_vectors)), shape_of_classes(spec.shape or (None, None))
        if sizes[1] not in (None, texts.shape[1]):
            wanted = f"an embedding of {texts.shape[1]} numbers, as text_vectors has"
            return f"expected {wanted}; the output {spec.name} has {sizes[1]}"
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
    is_free = options.labels is None or options.text_vectors is not None
    return None if is_free or classes == len(options.labels or ()) else classes
