"""The image of docs/options.md matches the current fits."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops

import draw_images


def test_the_image_is_current() -> None:
    page = Image.open(draw_images.FITS).convert("RGB")
    drawn = draw_images.drawn()
    assert page.size == drawn.size
    apart = np.asarray(ImageChops.difference(page, drawn))  # JPEG changes pixels a little
    assert apart.mean() < 4
