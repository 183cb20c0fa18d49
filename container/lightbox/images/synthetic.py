"""Made-up images."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

_QUALITY = 90
_COARSEST, _STRONGEST, _FADING = 4, 40.0, 0.75
"""Cells across, the strength of their contrast, and how much weaker it is in cells of half the size: as in photographs,
so that the file has about as many bytes as one."""


def photo_like(width: int, height: int) -> bytes:
    """Return a JPEG with large shapes and fine detail; the same bytes each time.

    At 1024x768 it has 0.2 MB and takes as long to decode and resize as a photograph of that size.
    """
    random = np.random.default_rng(0)
    levels = np.full((height, width, 3), 128, np.float32)
    cells, strength = _COARSEST, _STRONGEST
    while cells <= width:
        for channel in range(3):
            shapes = random.normal(0, strength, (max(1, cells * height // width), cells)).astype(np.float32)
            levels[..., channel] += np.asarray(
                Image.fromarray(shapes).resize((width, height), Image.Resampling.BICUBIC)
            )
        cells, strength = cells * 2, strength * _FADING
    encoded = BytesIO()
    Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(encoded, "jpeg", quality=_QUALITY)
    return encoded.getvalue()
