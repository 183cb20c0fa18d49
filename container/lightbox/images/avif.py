"""AVIF by Pillow, limited to the size in its header.

Pillow parses EXIF without limits, decodes on all cores, and accepts other sizes than the header's: a file of a kilobyte
that declares 16 x 16 may hold 268 megapixels. libavif can limit this, but Pillow does not expose the limit.
"""

from __future__ import annotations

import ctypes

from PIL import _avif
from PIL.AvifImagePlugin import AvifImageFile
from PIL.ExifTags import Base
from PIL.Image import Exif

_POINTER_AT = 16
"""Offset in Pillow's object of the pointer to libavif's ``avifDecoder``."""
_DEFAULT_LIMITS = (16384 * 16384, 32768)
_SIZE_LIMIT_AT = 28
"""Offset in ``avifDecoder`` of imageSizeLimit, in pixels; imageDimensionLimit follows."""


class Avif(AvifImageFile):
    """Decodes in one thread, with the orientation as the only metadata."""

    def _open(self) -> None:
        assert self.fp is not None
        self._decoder = _avif.AvifDecoder(self.fp.read(), "auto", 1)
        self._size, self.n_frames, self._mode, _, _, orientation, _ = self._decoder.get_info()
        self.is_animated = self.n_frames > 1
        _limit(self._decoder, self.width * self.height)
        exif = Exif()
        exif[Base.Orientation] = orientation  # the container's orientation has precedence over EXIF's
        self.info["exif"] = exif.tobytes()
        self.seek(0)


def _limit(decoder: object, pixels: int) -> None:
    """Limit libavif's frames to ``pixels``."""
    address = ctypes.c_void_p.from_address(id(decoder) + _POINTER_AT).value
    limits = (ctypes.c_uint32 * 2).from_address((address or 0) + _SIZE_LIMIT_AT)
    assert tuple(limits) == _DEFAULT_LIMITS, "this Pillow has another libavif than the locked one"
    limits[0] = pixels
