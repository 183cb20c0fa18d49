"""A form of outputs: which ones a model gives, and the objects in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import ClassVar, Literal

from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions
from lightbox.model.spec import describe_shape

Shape = tuple[int | None, ...] | None
Area = tuple[float, float, float, float]
"""Left, top, right and bottom."""
Shapes = Mapping[str, Shape]
"""Shapes of outputs by name, with None for what is not known."""
PartName = Literal["mask", "keypoints", "corners"]
SIGMOIDS = "each of its classes has a sigmoid: set the option activation to 'sigmoid'"


class Form(ABC):
    """The outputs of one kind of networks. A start checks them by their shapes."""

    expected: ClassVar[str]
    """Its outputs, for a sentence."""
    other_rows: ClassVar[str] = ""
    """Why the number of classes may be wrong, for the end of a sentence."""

    parts: ClassVar[tuple[PartName, ...]] = ()
    """Parts of its objects besides a class, a score and a box."""

    @abstractmethod
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        """Return whether outputs of these shapes can be of this form."""

    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        """Return why a file with these outputs and notes of its exporter is of another form; None if it may be."""
        return None

    def is_ambiguous(self, shapes: Shapes) -> bool:
        """Return whether outputs of another form look like these with more classes, unless their number is known."""
        return False

    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        """Return the numbers of labels that outputs which fit can have, the number of classes first; empty for any."""
        return ()

    @abstractmethod
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row of outputs that fit, for an input of a ``size``: width, height.

        Raises ModelFailed for numbers that are of no such form.
        """

    def objects_of_images(
        self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions, areas: Sequence[Area]
    ) -> list[Objects]:
        """Return the same of images with an area in the input each, which libraries may clip boxes to before others."""
        return self.objects(outputs, size, options)


def can_be(shape: Shape, wanted: tuple[int | None, ...]) -> bool:
    """Return whether a shape can be another one."""
    return shape is None or (
        len(shape) == len(wanted)
        and all(one is None or other is None or one == other for one, other in zip(shape, wanted, strict=True))
    )


def are_of_the_same(shapes: Sequence[Shape]) -> bool:
    """Return whether outputs can have a row for each object of the same images: equal first two dimensions."""
    leading = [shape[:2] for shape in shapes if shape is not None]
    return all(can_be(one, other) for one, other in combinations(leading, 2))


def described(shapes: Shapes) -> str:
    """Return outputs with their shapes, for a sentence."""
    return ", ".join(
        f"{name} {describe_shape(shape) if shape is not None else '(any shape)'}" for name, shape in shapes.items()
    )
