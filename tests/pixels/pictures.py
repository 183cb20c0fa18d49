"""The pictures whose pixels are compared: seeded, of sizes that show how a library rounds."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw

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


def picture(name: str) -> Image.Image:
    """Return a picture with slopes, edges and noise, as photos have them; ``wide 128x96`` is resized to that."""
    name, _, size = name.partition(" ")
    if size:
        new_width, new_height = map(int, size.split("x"))
        return picture(name).resize((new_width, new_height))
    width, height = SIZES[name]
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
