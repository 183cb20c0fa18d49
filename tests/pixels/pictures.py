"""Pictures whose pixels are compared, of sizes that show how a library rounds, and photos as files: all are seeded."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from corpus import writers

SIZES = {
    "wide": (151, 97),
    "tall": (98, 151),
    "square": (101, 101),
    "odd": (131, 130),
    "long": (300, 41),
    "small": (23, 17),
    "photo": (640, 427),
}
"""Width and height of each picture by its name."""
PHOTOS = {
    "wide photo": (853, 480),
    "turned photo": (480, 640),
    "grey": (640, 427),
    "grey of 16 bits": (427, 640),
    "colors of 16 bits": (500, 375),
    "tiny": (20, 13),
    "panorama": (6000, 200),
}
"""Width and height of each photo, upright, by its name."""


def picture(name: str) -> Image.Image:
    """Return a picture with slopes, edges and noise, as photos have them; ``wide 128x96`` is resized to that."""
    name, _, size = name.partition(" ")
    if size:
        new_width, new_height = map(int, size.split("x"))
        return picture(name).resize((new_width, new_height))
    return _drawn(*SIZES[name])


def _drawn(width: int, height: int) -> Image.Image:
    random = np.random.default_rng(width * height)
    down, across = np.linspace(0, 1, height)[:, None], np.linspace(0, 1, width)[None]
    slopes = np.stack([200 * across + 40 * down, 220 * down * across + 20, 255 * (1 - down) * (1 - across)], axis=2)
    image = Image.fromarray((slopes + random.normal(0, 6, slopes.shape)).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        left, top = int(random.integers(0, width)), int(random.integers(0, height))
        color = tuple(int(value) for value in random.integers(0, 256, 3))
        draw.ellipse((left, top, left + width // 5, top + height // 5), color)
    return image


def png(name: str) -> bytes:
    """Return a picture as a file that every library decodes to the same pixels."""
    file = io.BytesIO()
    picture(name).save(file, "PNG")
    return file.getvalue()


@cache
def photo(name: str) -> bytes:
    """Return a photo as a file: a JPEG with orientation 6, or a PNG, of 16 bits with noise in the lower 8."""
    image, file = _drawn(*PHOTOS[name]), io.BytesIO()
    if name.startswith("turned"):
        image.transpose(Image.Transpose.ROTATE_90).save(file, "JPEG", quality=95, exif=writers.exif(6))
        return file.getvalue()
    pixels = np.asarray(image.convert("L") if name.startswith("grey") else image)
    if name.endswith("16 bits"):
        lower = np.random.default_rng(0).integers(0, 256, pixels.shape, np.uint16)
        rows = (pixels.astype(np.uint16) << 8 | lower).astype(">u2")
        return writers.png(image.size, 16, 0 if pixels.ndim == 2 else 2, (row.tobytes() for row in rows), level=1)
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def upright(name: str) -> Image.Image:
    """Return what a library is given that reads no files: a photo's pixels as RGB of 8 bits, turned as it says."""
    if name.startswith("turned"):
        return ImageOps.exif_transpose(Image.open(io.BytesIO(photo(name)))).convert("RGB")
    image = _drawn(*PHOTOS[name])
    return image.convert("L").convert("RGB") if name.startswith("grey") else image


def sampled(numbers: Any) -> Any:
    """Return some rows and columns of a map of numbers, all else whole."""
    if numbers.ndim != 2 or numbers.dtype == np.uint8:
        return numbers
    step = max(1, max(numbers.shape) // 64)
    return numbers[::step, ::step]
