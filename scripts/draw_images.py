#!/usr/bin/env python3
"""Draws the pages' images, ``make pictures``: a photo under each ``fit``, and the page to try models.

Those of the page are screenshots with trained weights, which tests/slow/page/test_page_looks.py leaves in build/page.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lightbox.images.decode import decode_rgb
from lightbox.images.preparation import Fit, Fitting, Preparation
from lightbox.images.resize import Resizer

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FITS = IMAGES / "fits.jpg"
SCREENSHOTS = {"page-light.png": "classes-light.png", "page-dark.png": "digits-dark.png"}
WIDTH, MOST_HEIGHT = 900, 1150
"""Of a screenshot in the pages, in pixels: from the top to the stages."""
SIDE = 224
TEXT, GAP = 26, 16
_BACKGROUND, _INK = (255, 255, 255), (40, 40, 40)


def photo() -> Image.Image:
    """Return scikit-image's cup of coffee, 600x400."""
    found = find_spec("skimage")
    assert found is not None and found.origin is not None, "requirements/serve.lock has scikit-image"
    return decode_rgb((Path(found.origin).parent / "data" / "coffee.png").read_bytes())


def made(image: Image.Image, fit: Fit) -> Image.Image:
    """Return the model's input as a picture."""
    pixels = np.empty((SIDE, SIDE, 3), np.uint8)
    Resizer(1).fill(image, pixels, Preparation(fitting=Fitting(fit), padding=(114,)), by_all_cores=False)
    return Image.fromarray(pixels)


def drawn() -> Image.Image:
    """Return the photo and its fits side by side, each with its name above."""
    image = photo()
    shown = image.resize((image.width * SIDE // image.height, SIDE))
    panels = [(f"photo, {image.width}x{image.height}", shown), *((str(fit), made(image, fit)) for fit in Fit)]
    width = sum(panel.width for _, panel in panels) + GAP * (len(panels) - 1)
    canvas = Image.new("RGB", (width, SIDE + TEXT), _BACKGROUND)
    draw, left = ImageDraw.Draw(canvas), 0
    for name, panel in panels:
        draw.text((left, 2), name, _INK, ImageFont.load_default(16))
        canvas.paste(panel, (left, TEXT))
        left += panel.width + GAP
    return canvas


if __name__ == "__main__":
    drawn().save(FITS, quality=88)
    for name, screenshot in SCREENSHOTS.items():
        with Image.open(ROOT / "build" / "page" / screenshot) as taken:
            height = round(taken.height * WIDTH / taken.width)
            shown = taken.convert("RGB").resize((WIDTH, height)).crop((0, 0, WIDTH, min(height, MOST_HEIGHT)))
            shown.quantize(256).save(IMAGES / name, optimize=True)
