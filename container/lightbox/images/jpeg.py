"""Colour JPEGs of one scan by simplejpeg: the pixels that Pillow makes, for less processor time (ADR 080).

Pillow reads the header, and decodes what is left: several scans, grey and CMYK, damaged files.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

try:
    import simplejpeg
except ImportError:  # a platform that it has no wheel for
    simplejpeg = None

from lightbox.images.limits import has_one_scan
from lightbox.images.native_resize import Rgbx

_CHECKED = ((67, 45), (16, 33))
_SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")


def decode(image: ImageFile, body: bytes) -> Rgbx | None:
    """Decode the file whose header is ``image``; None if it is none of those that are decoded here, or is damaged.

    The header is as Pillow left it on opening. The interpreter is released.
    """
    if not (isinstance(image, JpegImageFile) and image.mode == "RGB" and has_one_scan(image, body)):
        return None
    pixels = np.empty((image.height, image.width, 4), np.uint8)
    try:
        found = simplejpeg.decode_jpeg(body, "RGBX", buffer=pixels)
    except ValueError:
        return None  # Pillow says what is wrong with it, or does not mind
    return Rgbx(pixels) if found.shape == pixels.shape else None


def agrees() -> bool:
    """Tell whether simplejpeg is here and makes what this Pillow makes."""
    return simplejpeg is not None and all(
        _agrees(size, subsampling) for size in _CHECKED for subsampling in _SUBSAMPLINGS
    )


def _agrees(size: tuple[int, int], subsampling: str) -> bool:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    file = BytesIO()
    Image.fromarray(noise).save(file, "JPEG", quality=80, subsampling=subsampling)
    image = JpegImageFile(BytesIO(file.getvalue()))
    found = decode(image, file.getvalue())
    return found is not None and found.image.tobytes() == image.convert("RGB").tobytes()
