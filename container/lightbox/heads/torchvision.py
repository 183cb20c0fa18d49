"""Objects as of torchvision's detectors, in pixels of the input: SSD, RetinaNet, Faster, Mask and Keypoint R-CNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from lightbox.heads.form import Form, PartName, Shapes, can_be
from lightbox.model.options import ModelOptions

BOXES, LABELS, SCORES, MASKS, KEYPOINTS, OF_KEYPOINTS = (
    *("boxes", "labels", "scores", "masks"),
    *("keypoints", "keypoints_scores"),
)


class Torchvision(Form):
    """``boxes``, ``labels`` and ``scores`` of one image."""

    expected = f"{BOXES} of [K, 4], {LABELS} and {SCORES} of [K]"
    more: ClassVar[Mapping[str, tuple[int | None, ...]]] = {}
    """The shapes of further outputs."""

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        wanted: dict[str, tuple[int | None, ...]] = {BOXES: (None, 4), LABELS: (None,), SCORES: (None,), **self.more}
        return shapes.keys() == wanted.keys() and all(can_be(shapes[name], wanted[name]) for name in wanted)


class TorchvisionSegments(Torchvision):
    """The same with ``masks``, which the graph has placed in the input."""

    expected = f"{Torchvision.expected}, and {MASKS} of [K, 1, H, W]"
    more: ClassVar[Mapping[str, tuple[int | None, ...]]] = {MASKS: (None, 1, None, None)}
    parts: ClassVar[tuple[PartName, ...]] = ("mask",)


class TorchvisionPoses(Torchvision):
    """The same with ``keypoints`` and their scores."""

    expected = f"{Torchvision.expected}, {KEYPOINTS} of [K, P, 3] and {OF_KEYPOINTS} of [K, P]"
    more: ClassVar[Mapping[str, tuple[int | None, ...]]] = {KEYPOINTS: (None, None, 3), OF_KEYPOINTS: (None, None)}
    parts: ClassVar[tuple[PartName, ...]] = ("keypoints",)
