"""Answers of Ultralytics' networks, before suppression or end to end: boxes, with masks, keypoints or an angle each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar, NamedTuple

from typing_extensions import override

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.base.literals import foreign_literal
from lightbox.heads.activation import activated
from lightbox.heads.boxes import as_integers, best, corners, most, without_overlaps
from lightbox.heads.form import Form, Shape, Shapes, can_be
from lightbox.heads.objects import Float32, Masks, Objects
from lightbox.heads.rotated_boxes import corners_of, enclosing, without_rotated_overlaps
from lightbox.model.options import ModelOptions

OF_BOX, OF_FOUND = 4, 6
"""Numbers of an object before those of its classes, and end to end: a box, a score and a class."""
_RANK_OF_MAPS = 4
_TASKS = {
    "detect": ("plain boxes", "ultralytics"),
    "segment": ("masks", "ultralytics-segment"),
    "pose": ("poses", "ultralytics-pose"),
    "obb": ("rotated boxes", "ultralytics-obb"),
}
"""The answers of each task, and its option ``detections``."""
_FRACTIONS = 4.0
"""Box centers that are all below this are fractions of the input: in pixels they would all lie in its corner."""
_MOST_SCORE = 1.1
"""Largest probability, with a margin for float16 and rounding."""


class _Proposals(NamedTuple):
    """The boxes of one image with a score above the threshold, in pixels of the input."""

    found: Objects
    places: Float32
    """[K, 4]: the boxes as the output has them."""
    more: Float32
    """[K, M]: the further numbers of each."""
    scale: Float32
    """The width and height of what a 1 of the output is."""
    is_final: bool
    """Whether overlaps have been left out already."""


class Ultralytics(Form):
    """One output [N, 4+C+M, A], with M more numbers for each box, or [N, K, 6+M]."""

    task: ClassVar[str]
    other_rows: ClassVar[str] = "; rows of other values, such as an angle, look like classes"

    @abstractmethod
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        """Return how many numbers there are besides those of the box and the classes; None if it is not known."""

    def has_its_outputs(self, shapes: Shapes) -> bool:
        """Return whether these are as many outputs, of ranks of such networks."""
        return len(shapes) == 1

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        more, shape = self.more(shapes, options), shape_of_boxes(shapes)
        if not self.has_its_outputs(shapes) or not can_be(shape, (None, None, None)):
            return False
        return more is None or is_end_to_end(shape, more) or _is_raw(shape, more)

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        task = "pose" if "kpt_shape" in notes else notes.get("task", self.task)
        is_of_rtdetr = "RTDETR" in notes.get("head", "")
        if task == self.task and not is_of_rtdetr:
            return None
        gives, form = _TASKS.get(task, (f"answers of the task {task[:20]!r}", ""))
        gives, hint = ("RT-DETR's boxes", "") if is_of_rtdetr else (gives, f"; set {form!r}" if form else "")
        return f"expected a model that finds {_TASKS[self.task][0]}; by its metadata it gives {gives}{hint}"

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        more, shape = self.more(shapes, options), shape_of_boxes(shapes)
        is_open = more is None or shape is None or None in shape[1:] or is_end_to_end(shape, more)
        return () if more is None or shape is None or shape[1] is None or is_open else (shape[1] - OF_BOX - more,)


class Boxes(Ultralytics):
    """Plain boxes."""

    task = "detect"
    expected = "one output of [N, 4+C, A] or [N, K, 6]"

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return 0

    @override
    def is_ambiguous(self, shapes: Shapes) -> bool:
        return not is_end_to_end(shape_of_boxes(shapes), 0)

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return plain boxes of each row: [4+C, A] before suppression, or [K, 6]."""
        (output,) = outputs.values()
        return [_without_overlaps(row.found, row, options) for row in _rows(output, 0, size, options)]


class Segments(Ultralytics):
    """Boxes with coefficients of masks, and the common masks that they belong to."""

    task = "segment"
    expected = "outputs of [N, 4+C+M, A] or [N, K, 6+M], and of [N, M, H, W]"
    parts = ("mask",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return coefficients_of(shapes, options)

    @override
    def has_its_outputs(self, shapes: Shapes) -> bool:
        known = [shape for shape in shapes.values() if shape is not None]
        maps = sum(map(_are_maps, known))
        return len(shapes) == 2 and maps <= 1 <= maps + 2 - len(known) and can_be(known[0][:1], known[-1][:1])

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return boxes with masks of each row: [4+C+M, A] or [K, 6+M] with coefficients of [M, height, width]."""
        (output,), (maps,) = ([array for array in outputs.values() if array.ndim == rank] for rank in (3, 4))
        count = coefficients_of({name: array.shape for name, array in outputs.items()}, options)
        assert count is not None, "shapes of arrays are known"
        if maps.shape[1] != count:
            maps = maps.transpose(0, 3, 1, 2)
        rows = zip(_rows(output, count, size, options), maps, strict=True)
        return [_without_overlaps(row.found._replace(masks=Masks(own, row.more)), row, options) for row, own in rows]


class Poses(Ultralytics):
    """Boxes with keypoints."""

    task = "pose"
    expected = "one output of [N, 4+C+P*D, A] or [N, K, 6+P*D], for P keypoints of D numbers,"
    parts = ("keypoints",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return options.keypoints and options.keypoints[0] * options.keypoints[1]

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        if options.keypoints is None:
            return "expected the option keypoints: how many an object has, and numbers for each, as in [17, 3]"
        return super().problem(outputs, notes, options)

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return boxes with keypoints of each row: [4+C+P*D, A] or [K, 6+P*D]."""
        assert options.keypoints is not None, "it fits"
        (output,), (count, numbers) = outputs.values(), options.keypoints
        found = []
        for row in _rows(output, count * numbers, size, options):
            points = row.more.reshape(-1, count, numbers).copy()
            points[..., :2] *= row.scale
            found.append(_without_overlaps(row.found._replace(keypoints=points), row, options))
        return found


class RotatedBoxes(Ultralytics):
    """Boxes with an angle."""

    task = "obb"
    expected = "one output of [N, 4+C+1, A] or [N, K, 7]"
    parts = ("corners",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return 1

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return rotated boxes of each row: [4+C+1, A] or [K, 7], the angle last."""
        (output,) = outputs.values()
        found = []
        for row in _rows(output, 1, size, options, has_centers=True):
            turned = np.concatenate([row.places, row.more], axis=1)
            objects = best(row.found._replace(boxes=enclosing(corners_of(turned)), rotated=turned), options)
            if objects.rotated is not None and not row.is_final:
                objects = objects.chosen(without_rotated_overlaps(objects.rotated, objects.classes, options))
            found.append(objects.chosen(slice(most(options))))
        return found


def coefficients_of(shapes: Shapes, options: ModelOptions) -> int | None:
    """Return how many common masks there are, None if it is not known: the first dimension of each image's, or the last
    where only that fits the boxes, as in exports of TensorFlow."""
    shape, boxes = next(filter(_are_maps, shapes.values()), None), shape_of_boxes(shapes)
    if shape is None:
        return None
    if not boxes:
        return shape[1]
    rows = OF_BOX + len(options.labels or ())
    fitting = (
        count for count in (shape[1], shape[3]) if count and (is_end_to_end(boxes, count) or boxes[1] == rows + count)
    )
    return next(fitting, shape[1])


def names_in(notes: Mapping[str, str]) -> int | None:
    """Return the number of names of classes in the metadata, None if there are none."""
    with suppress(ValueError, TypeError):
        return len(foreign_literal(notes.get("names", ""))) or None
    return None


def shape_of_boxes(shapes: Shapes) -> Shape:
    """Return the shape of the output with boxes, not of common masks."""
    return next((shape for shape in shapes.values() if not _are_maps(shape)), ())


def _are_maps(shape: Shape) -> bool:
    return shape is not None and len(shape) == _RANK_OF_MAPS


def is_end_to_end(shape: Shape, more: int) -> bool:
    """Return whether the last dimension is that of objects after suppression, with ``more`` numbers each."""
    return shape is not None and len(shape) > 2 and shape[2] == OF_FOUND + more


def _is_raw(shape: Shape, more: int) -> bool:
    """Return whether there can be a row for each box side and class, and a column for each of many anchors.

    With fewer anchors than rows it is another form: end-to-end masks or poses, or YOLOv5's.
    """
    rows, anchors = shape[1:] if shape is not None else (None, None)
    return rows is None or (rows > OF_BOX + more and (not anchors or anchors >= rows))


def _without_overlaps(found: Objects, row: _Proposals, options: ModelOptions) -> Objects:
    objects = best(found, options)
    return objects.chosen(slice(most(options)) if row.is_final else without_overlaps(objects, options))


def _rows(
    output: Float32, more: int, size: tuple[int, int], options: ModelOptions, has_centers: bool = False
) -> Iterator[_Proposals]:
    """Yield the proposals of each row, with ``more`` numbers each; ``has_centers`` of end-to-end rows."""
    is_final = is_end_to_end(output.shape, more)
    for row in output:
        yield _end_to_end(row, size, options, has_centers) if is_final else _raw(row, more, size, options)


def _end_to_end(row: Float32, size: tuple[int, int], options: ModelOptions, has_centers: bool) -> _Proposals:
    scores = row[:, 4]
    if options.activation == "sigmoid":
        scores = activated(scores, "sigmoid").astype(np.float32, copy=False)
    passed = scores > options.score_threshold
    scale = _scale(row[:, :OF_BOX], size)
    places = row[passed, :OF_BOX] * np.tile(scale, 2)
    turned = np.flatnonzero((places[:, 2:] < places[:, :2]).any(axis=1))
    if not has_centers and 2 * len(turned) > len(places):
        raise ModelFailed("detections: expected corners of boxes for 'ultralytics'; the model gives centers and sizes")
    found = Objects(as_integers(row[passed, 5]), scores[passed], places)
    return _Proposals(found, places, row[passed, OF_FOUND:], scale, is_final=True)


def _raw(row: Float32, more: int, size: tuple[int, int], options: ModelOptions) -> _Proposals:
    end = len(row) - more
    chances = activated(row[OF_BOX:end].T, options.activation).T
    scores = chances.max(axis=0, initial=0)
    least, largest = chances.min(initial=0), scores.max(initial=0)
    if largest > _MOST_SCORE or least < 1 - _MOST_SCORE:
        raise ModelFailed(
            f"detections: expected scores of 0 to 1 for {options.detections!r}, as of a detector's classes; the model "
            f"gives {largest if largest > _MOST_SCORE else least:.3g}; if they are logits, set the option activation"
        )
    passed = np.flatnonzero(scores > options.score_threshold)  # few of many
    scale = _scale(row[:2], size)
    places = row[:OF_BOX, passed].T * np.tile(scale, 2)
    found = Objects(chances[:, passed].argmax(axis=0), scores[passed].astype(np.float32, copy=False), corners(places))
    return _Proposals(found, places, row[end:, passed].T, scale, is_final=False)


def _scale(places: Float32, size: tuple[int, int]) -> Float32:
    """Return what a 1 of the output is. Ultralytics' exports for LiteRT have fractions of the input, others pixels."""
    are_fractions = not places.size or places.max() <= _FRACTIONS
    return np.array(size if are_fractions else (1, 1), np.float32)
