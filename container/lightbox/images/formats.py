"""The formats that are read, how they are recognised, and the one Pillow class that opens each.

The classes are called directly, not through ``Image.open``: a request can then never make Pillow scan for
plugins, start Ghostscript (EPS) or try a format that is not in this table.

    JPEG   baseline, progressive, grey, RGB, CMYK; of a multi-picture file (MPO) the first picture
    PNG    every colour type and depth; of an APNG the default image or first frame
    GIF    the first frame
    WEBP   lossy, lossless, alpha; of an animation the first frame
    BMP    every depth, run-length encoded too
    TIFF   classic and (little-endian) BigTIFF, every compression of libtiff; the first page
    PPM    binary PBM, PGM and PPM (P4, P5, P6) with a maximum value of 255, PGM also of 65535

Left out on purpose: formats that start programs (EPS), encodings that Pillow decodes in Python and so takes
seconds for (plain PNM), AVIF (some 20 bytes a pixel at its peak, and metadata that
Pillow reads without bounds), and what callers of a vision model do not send.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from io import BytesIO

from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

# What Pillow warns of is the caller's file, and nothing for the operator's log. Set once, here:
# catch_warnings around each decode would not be safe between threads.
warnings.filterwarnings("ignore", module=r"PIL\.")
logging.getLogger("PIL").setLevel(logging.CRITICAL)

Opener = Callable[[BytesIO], ImageFile]
_GREY_BITS = {"L": 8, "L;2": 2, "L;4": 4}


class _Jpeg(JpegImageFile):
    def _read_dpi_from_exif(self) -> None:
        """Nobody needs the resolution, and parsing EXIF for it warns, takes time and has no bound."""


class _Tiff(TiffImageFile):
    def load_end(self) -> None:
        """Keep the stored order, where Pillow would turn the image and read all EXIF directories for it."""
        self._size = self.im.size


OPENERS: dict[str, Opener] = {
    "JPEG": _Jpeg,
    "PNG": PngImageFile,
    "GIF": GifImageFile,
    "WEBP": WebPImageFile,
    "BMP": BmpImageFile,
    "TIFF": _Tiff,
    "PPM": PpmImageFile,
}

_MAGIC = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)"
    rb"|(?P<PNG>\x89PNG\r\n\x1a\n)"
    rb"|(?P<GIF>GIF8[79]a)"
    rb"|(?P<WEBP>RIFF.{4}WEBPVP8[ LX])"
    # "BM" alone could open a text; the size of the second header, one of seven, tells them apart.
    rb"|(?P<BMP>BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0)"
    rb"|(?P<TIFF>II[*+]\0|MM\0\*)"
    rb"|(?P<PPM>P[456][ \t\r\n][\d \t\r\n#])",
    re.DOTALL,
)

_MAGIC_BYTES = 32


def sniff_format(body: bytes | memoryview) -> str | None:
    """Tell the format (a key of OPENERS) from the first bytes; None if it is none of them."""
    match = _MAGIC.match(bytes(body[:_MAGIC_BYTES]))
    return match.lastgroup if match else None


def is_image(body: bytes | memoryview) -> bool:
    """Tell whether the first bytes are those of an image that can be read. Looks at no more than 32 bytes."""
    return sniff_format(body) is not None


def correct_key(image: PngImageFile) -> None:
    """Scale the key as Pillow scales the pixels; to be called between open and load.

    Pillow 13.0 widens 2 and 4 bit greys to 8 bits and cuts 16-bit colours to their upper 8, but compares them
    with the key as it stands in the file, so that the wrong pixels, or none, would become transparent.
    """
    key = image.info.get("transparency")
    stored = image.tile[0].args if image.tile else None
    if isinstance(key, int) and stored in _GREY_BITS:
        levels = 1 << _GREY_BITS[str(stored)]
        image.info["transparency"] = key % levels * (255 // (levels - 1))
    elif isinstance(key, tuple):
        image.info["transparency"] = tuple(v >> 8 if stored == "RGB;16B" else v & 255 for v in key)
