"""Objects as of torchvision's detectors, in pixels of the input: SSD, RetinaNet, Faster, Mask and Keypoint R-CNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from lightbox.base.lazy_numpy import np
from lightbox.heads.boxes import as_integers, best, most
from lightbox.heads.form import Form, PartName, Shapes, can_be
from lightbox.heads.objects import Float32, Masks, Objects
from lightbox.model.options import ModelOptions

BOXES, LABELS, SCORES, MASKS, KEYPOINTS, OF_KEYPOINTS = (
    *("boxes", "labels", "scores", "masks"),
    *("keypoints", "keypoints_scores"),
)
_THRESHOLD = 0.5
"""Above it a pixel is the object's, as in torchvision's examples."""


class Torchvision(Form):
    """``boxes``, ``labels`` and ``scores`` of one image."""

    expected = f"{BOXES} of [K, 4], {LABELS} and {SCORES} of [K]"
    more: ClassVar[Mapping[str, tuple[int | None, ...]]] = {}
    """The shapes of further outputs."""

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        wanted: dict[str, tuple[int | None, ...]] = {BOXES: (None, 4), LABELS: (None,), SCORES: (None,), **self.more}
        return shapes.keys() == wanted.keys() and all(can_be(shapes[name], wanted[name]) for name in wanted)

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of the one image."""
        found = Objects(as_integers(outputs[LABELS]), outputs[SCORES], outputs[BOXES])
        if MASKS in outputs:
            found = found._replace(masks=Masks(outputs[MASKS][:, 0], threshold=_THRESHOLD, are_placed=True))
        if KEYPOINTS in outputs:
            places, scores = outputs[KEYPOINTS][..., :2], outputs[OF_KEYPOINTS][..., None]
            found = found._replace(keypoints=np.concatenate([places, scores], axis=2))
        return [best(found, options).chosen(slice(most(options)))]


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
