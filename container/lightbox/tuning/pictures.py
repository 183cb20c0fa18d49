"""The image that is sent: the user's own, or one that costs about as much to decode as a photograph."""

from __future__ import annotations

from pathlib import Path

from lightbox.images.decode import is_image
from lightbox.images.synthetic import photo_like

WIDTH, HEIGHT = 1024, 768


class PictureUnreadable(Exception):
    """The user's image cannot be sent; the message is one sentence that names the file."""


def picture(path: Path | None) -> tuple[bytes, str]:
    """Return the bytes of an image and what it is in a few words. Raises PictureUnreadable."""
    if path is None:
        body = photo_like(WIDTH, HEIGHT)
        return body, f"a made-up JPEG of {WIDTH}x{HEIGHT} pixels, {len(body) / 1000:.0f} kB"
    try:
        body = path.read_bytes()
    except OSError as error:
        raise PictureUnreadable(f"--image: {path} cannot be read: {error.strerror}") from None
    if not is_image(body):
        raise PictureUnreadable(f"--image: {path} is no image of a format that Lightbox reads")
    return body, f"{path.name}, {len(body) / 1000:.0f} kB"
