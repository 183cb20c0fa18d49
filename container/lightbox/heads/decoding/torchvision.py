"""Objects as of torchvision's detectors, whose graphs suppress overlaps and place masks themselves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightbox.heads.decoding.boxes import as_integers, best, most
from lightbox.heads.objects import Float32, Masks, Objects
from lightbox.heads.torchvision import BOXES, KEYPOINTS, LABELS, MASKS, OF_KEYPOINTS, SCORES
from lightbox.model.options import ModelOptions

_THRESHOLD = 0.5
"""Above it a pixel is the object's, as in torchvision's examples."""


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of the one image."""
    found = Objects(as_integers(outputs[LABELS]), outputs[SCORES], outputs[BOXES])
    if MASKS in outputs:
        found = found._replace(masks=Masks(outputs[MASKS][:, 0], threshold=_THRESHOLD, are_placed=True))
    if KEYPOINTS in outputs:
        places, scores = outputs[KEYPOINTS][..., :2], outputs[OF_KEYPOINTS][..., None]
        found = found._replace(keypoints=np.concatenate([places, scores], axis=2))
    return [best(found, options).chosen(slice(most(options)))]
