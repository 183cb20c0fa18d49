"""The picture of docs/options.md matches the current fits."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops

import draw_pictures
from lightbox.images.preparation import Fit


def test_the_picture_is_current() -> None:
    page = Image.open(draw_pictures.FITS).convert("RGB")
    drawn = draw_pictures.drawn()
    assert page.size == drawn.size
    apart = np.asarray(ImageChops.difference(page, drawn))  # JPEG changes pixels a little
    assert apart.mean() < 4


def test_only_the_letterbox_has_the_whole_photo_in_its_shape_and_padding() -> None:
    photo = draw_pictures.photo()
    bands = {str(fit): np.asarray(draw_pictures.made(photo, fit))[:30] for fit in Fit}
    assert (bands["letterbox"] == 114).all()
    assert not (bands["stretch"] == 114).all()
    assert not (bands["crop"] == 114).all()
