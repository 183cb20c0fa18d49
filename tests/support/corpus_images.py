"""Images of the corpus, and pictures in other formats."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from PIL import Image

VALID = Path(__file__).parents[1] / "corpus" / "valid"
JPEG = (VALID / "jpeg-444.jpg").read_bytes()
PICTURE = Image.open(BytesIO(JPEG)).copy()
"""Six blocks of different colours."""


def saved(image: Image.Image, format_name: str, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def oriented(orientation: int) -> bytes:
    return (VALID / f"jpeg-exif-{orientation}.jpg").read_bytes()
