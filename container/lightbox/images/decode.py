"""Encoded bytes to pixels: find the format, check the header, then load, then turn into upright RGB.

Pillow's classes are called directly, without ``Image.open``: no request makes it search plugins or start programs.

    JPEG   baseline, progressive, grey, RGB, CMYK; of a multi-picture file (MPO) the first image
    PNG    every colour type and depth; of an APNG the default image or first frame
    GIF    the first frame
    WEBP   lossy, lossless, alpha; of an animation the first frame
    BMP    every depth, run-length encoded too
    TIFF   classic and (little-endian) BigTIFF, every compression of libtiff; the first page
    PPM    binary PBM, PGM and PPM (P4, P5, P6) with a maximum value of 255, PGM also of 65535
    AVIF   every depth, alpha; of an animation the first frame

``jpeg`` reads colour JPEGs of one scan without Pillow.

Excluded on purpose: formats that start programs (EPS), encodings that Pillow decodes slowly in Python (plain PNM), and
formats that Pillow cannot read. foreign.py names them to the sender.
"""

from __future__ import annotations

import ctypes
import logging
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from io import BytesIO
from typing import TypeGuard

from PIL import _imaging
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.Image import Image
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from lightbox.base.errors import ImageUndecodable, TooLarge
from lightbox.images import foreign
from lightbox.images.avif import Avif
from lightbox.images.color import to_grey, to_rgb
from lightbox.images.exif import UPRIGHT, orientation_of, swaps_sides, turn_upright
from lightbox.images.jpeg import decode_jpeg, read_head
from lightbox.images.lazy_image import WITHOUT_LIMIT, Mode, Opened, Resized, Room, ToFit
from lightbox.images.limits import (
    JPEG_BYTES_PER_PIXEL,
    MAX_PIXELS_SETTING,
    ImageLimits,
    TimeLimitedBytes,
    Undecodable,
    check_decoding,
    check_header,
    decoding_bytes,
)
from lightbox.images.png_texts import without_large_texts
from lightbox.images.preparation import Size
from lightbox.images.resize import for_pillow

# Pillow's warnings are about the caller's file. Set once here, as catch_warnings is not thread-safe.
warnings.filterwarnings("ignore", module=r"PIL\.")
logging.getLogger("PIL").setLevel(logging.CRITICAL)
# libtiff writes a line to stderr for each damaged row. Pillow's libjpeg is silent, and Pillow has its own PNG reader.
with suppress(OSError, AttributeError):  # of a Pillow without libtiff
    _libraries = ctypes.CDLL(_imaging.__file__)
    _libraries.TIFFSetErrorHandler(None)
    _libraries.TIFFSetWarningHandler(None)

_SCALES = (8, 4, 2)  # libjpeg's scales that are worth it
_WHOLE = 1
KEPT_BYTES_PER_PIXEL = 4
Opener = Callable[[BytesIO], ImageFile]
_GREY_BITS = {"L": 8, "L;2": 2, "L;4": 4}


class _Jpeg(JpegImageFile):
    def _read_dpi_from_exif(self) -> None:
        """Skip it: no code needs the resolution, and parsing EXIF warns, takes time and is unbounded."""


class _Tiff(TiffImageFile):
    def load_end(self) -> None:
        """Keep the stored orientation; Pillow would turn the image after reading all EXIF directories."""
        self._size = self.im.size


OPENERS: dict[str, Opener] = {
    "JPEG": _Jpeg,
    "PNG": PngImageFile,
    "GIF": GifImageFile,
    "WEBP": WebPImageFile,
    "BMP": BmpImageFile,
    "TIFF": _Tiff,
    "PPM": PpmImageFile,
    "AVIF": Avif,
}

_MAGIC = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)"
    rb"|(?P<PNG>\x89PNG\r\n\x1a\n)"
    rb"|(?P<GIF>GIF8[79]a)"
    rb"|(?P<WEBP>RIFF.{4}WEBPVP8[ LX])"
    # "BM" may begin a text; the size of the second header, one of seven, distinguishes them.
    rb"|(?P<BMP>BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0)"
    rb"|(?P<TIFF>II[*+]\0|MM\0\*)"
    rb"|(?P<PPM>P[456][ \t\r\n][\d \t\r\n#])"
    # "mif1" is any format in a HEIF container, HEIC too; the following brands decide.
    rb"|(?P<AVIF>.{4}ftyp(?:avi[fs]|m[is]f1.{4}(?:.{4})*?avif))",
    re.DOTALL,
)

_MAGIC_BYTES = 32


def sniff_format(body: bytes | memoryview) -> str | None:
    """Return the format (a key of OPENERS) by the first bytes; None if unknown."""
    match = _MAGIC.match(bytes(body[:_MAGIC_BYTES]))
    return match.lastgroup if match else None


def is_image(body: bytes | memoryview) -> bool:
    """Return whether the first bytes, at most 32, are those of a readable image."""
    return sniff_format(body) is not None


def correct_key(image: PngImageFile) -> None:
    """Scale the transparent colour as Pillow scales the pixels; call it between open and load.

    Pillow 13.0 widens 2- and 4-bit greys to 8 bits and cuts 16-bit colours to their upper 8, but compares them with the
    unscaled colour of the file, so that wrong pixels, or none, would become transparent.
    """
    key = image.info.get("transparency")
    stored = image.tile[0].args if image.tile else None
    if isinstance(key, int) and stored in _GREY_BITS:
        levels = 1 << _GREY_BITS[str(stored)]
        image.info["transparency"] = key % levels * (255 // (levels - 1))
    elif isinstance(key, tuple):
        image.info["transparency"] = tuple(v >> 8 if stored == "RGB;16B" else v & 255 for v in key)


__all__ = ["ImageLimits", "decode_for_resize", "decode_rgb", "is_image", "open_image", "sniff_format"]

DEFAULT_LIMITS = ImageLimits()


def open_image(body: bytes | memoryview, limits: ImageLimits = DEFAULT_LIMITS) -> ImageFile:
    """Read only the header: format, size and mode; no pixel is decoded.

    Raises ImageUndecodable (400) for unknown formats and broken headers, TooLarge (413) for more pixels, or more memory
    to decode them, than the limits allow.
    """
    name = sniff_format(body)
    if name is None:
        raise ImageUndecodable(f"Expected an image ({', '.join(OPENERS)}), got {foreign.describe(body)}.")
    data = bytes(body)
    with Undecodable(f"{name} image"):
        check_header(name, data, limits)
        if name == "PNG":
            data = without_large_texts(data)
        image = OPENERS[name](TimeLimitedBytes(data, limits.header_cpu_seconds))
        limits.check_size(*image.size)
        check_decoding(image, data, limits)
        if isinstance(image, PngImageFile):
            correct_key(image)
    return image


def decode_rgb(body: bytes | memoryview, limits: ImageLimits = DEFAULT_LIMITS, *, mode: Mode = "RGB") -> Image:
    """Decode to an image of ``mode`` RGB (3 x 8 bit) or L (8 bit), upright; of several frames the first.

    Transparent pixels are composited on white. Raises as open_image does, also for a file whose pixels are truncated
    or broken.
    """
    return for_pillow(decode_for_resize(bytes(body), limits, mode=mode, to_pillow=True).pixels)


def decode_for_resize(
    body: bytes,
    limits: ImageLimits = DEFAULT_LIMITS,
    *,
    mode: Mode = "RGB",
    resized: Resized | None = None,
    to_pillow: bool = False,
    room: Room = WITHOUT_LIMIT,
) -> Opened:
    """Decode to the same pixels as decode_rgb; most JPEGs are stored for the compiled resize.

    ``resized`` returns the size to which the caller will resize an image. A JPEG with even sides of at least four times
    that size is decoded at reduced scale, to at least twice that size: faster, with differences of 1 or 2. With ToFit
    this happens only to an image that is larger than ``room``. Raises as ``room`` does, before pixels are decoded.
    """
    if not to_pillow and mode == "RGB" and (found := _without_pillow(body, limits, resized, room)) is not None:
        return found
    image = open_image(body, limits)
    with Undecodable(f"{image.format} image"):
        stored = image.size
        if _may_be_reduced(resized, decoding_bytes(image, body, stored), room):
            scale = _scale(stored, orientation_of(image), resized)
            if scale != _WHOLE:
                image.draft(None, (stored[0] // scale, stored[1] // scale))
        is_reduced = image.size != stored
        room.hold(decoding_bytes(image, body, stored))
        _allow(image, limits.cpu_seconds)
        image.load()
        orientation = orientation_of(image)
    converted = to_rgb(image) if mode == "RGB" else to_grey(image)
    del image  # before the turned copy is made: half the memory of a large image
    upright = turn_upright(converted, orientation)
    if not is_reduced:
        return Opened(upright, upright.size)
    return Opened(upright, (stored[1], stored[0]) if swaps_sides(orientation) else stored)


def _may_be_reduced(resized: Resized | None, size: int, room: Room) -> TypeGuard[Resized]:
    return resized is not None and not (isinstance(resized, ToFit) and size <= room.size)


def _without_pillow(body: bytes, limits: ImageLimits, resized: Resized | None, room: Room) -> Opened | None:
    """Decode a colour JPEG of one scan; None for other files, and for one to decode at reduced scale."""
    head = read_head(body)
    if head is None:
        return None
    size = head.size[0] * head.size[1] * JPEG_BYTES_PER_PIXEL // (2 if head.orientation == UPRIGHT else 1)
    if _may_be_reduced(resized, size, room) and _scale(head.size, head.orientation, resized) != _WHOLE:
        return None
    limits.check_size(*head.size)
    limits.check_memory(JPEG_BYTES_PER_PIXEL * head.size[0] * head.size[1])
    room.hold(size)
    with Undecodable("JPEG image"):
        pixels = decode_jpeg(body, head.size)
        if pixels is None:
            return None
        if head.orientation == UPRIGHT:
            return Opened(pixels, pixels.size)
        image = pixels.image
    del pixels  # before the turned copy is made: half the memory of a large image
    upright = turn_upright(image, head.orientation)
    return Opened(upright, upright.size)


def _scale(size: Size, orientation: int, resized: Resized) -> int:
    """Return the largest of libjpeg's scales that leaves an image of at least twice its later size.

    Its sides must be multiples of the scale: otherwise partial cells at two edges would move and resize the whole
    image.
    """
    turned = swaps_sides(orientation)
    width, height = resized((size[1], size[0]) if turned else size)
    least = (2 * height, 2 * width) if turned else (2 * width, 2 * height)
    for scale in _SCALES:
        is_whole = not (size[0] % scale or size[1] % scale)
        if is_whole and size[0] // scale >= least[0] and size[1] // scale >= least[1]:
            return scale
    return _WHOLE


def _allow(image: ImageFile, cpu_seconds: float) -> None:
    if isinstance(image.fp, TimeLimitedBytes):
        image.fp.allow(cpu_seconds)


Turn = Callable[[], AbstractContextManager[object]]
"""Context manager around decoding, which limits how many requests do it at once."""
OneOfBatch = Callable[[int, int], AbstractContextManager[object]]
"""Context manager around each image, given its index and their number, which names the failing one."""


class OriginalImages:
    """Encoded images, decoded once, on first use. Also raises as ``turn`` and ``one_of_batch``.

    ``hold`` gets the bytes of memory that all of them take, always within ``turn``: others do the same in that order.
    """

    def __init__(
        self,
        bodies: Callable[[], Sequence[bytes]],
        limits: ImageLimits,
        turn: Turn,
        one_of_batch: OneOfBatch,
        hold: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._find_bodies = bodies
        self._limits = limits
        self._turn = turn
        self._one_of_batch = one_of_batch
        self._hold = hold

    @cached_property
    def _bodies(self) -> Sequence[bytes]:
        return self._find_bodies()

    @cached_property
    def images(self) -> list[Image]:
        """The images in mode RGB. Raises ImageUndecodable, and TooLarge for one or for all together."""
        result = []
        with self._turn():
            self._admit()
            for index, body in enumerate(self._bodies):
                with self._one(index):
                    result.append(decode_rgb(body, self._limits))
        return result

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """(width, height) of each image, upright. Raises ImageUndecodable and TooLarge.

        Reads only the header of a JPEG. Other images are decoded one at a time, and not kept.
        """
        return [image.size for image in self.images] if "images" in vars(self) else self._each_size(self._size)

    def _size(self, body: bytes, limits: ImageLimits) -> tuple[int, int]:
        image = open_image(body, limits)
        if image.format != "JPEG":  # other formats may have the orientation after the pixels
            with self._turn():
                self._hold(decoding_bytes(image, body, image.size))
                try:
                    return decode_rgb(body, self._limits).size
                finally:
                    self._hold(0)
        width, height = image.size
        return (height, width) if swaps_sides(orientation_of(image)) else (width, height)

    def _admit(self) -> None:
        """Hold the memory of all images, and limit them together to the pixels of one: all are kept."""
        needed: list[int] = []

        def read(body: bytes, limits: ImageLimits) -> Size:
            header = open_image(body, limits)
            needed.append(
                decoding_bytes(header, bytes(body), header.size) - KEPT_BYTES_PER_PIXEL * header.width * header.height
            )
            return header.size

        sizes = self._each_size(read)
        pixels = sum(width * height for width, height in sizes)
        if len(sizes) > 1 and pixels > self._limits.max_pixels:
            raise TooLarge(
                f"{len(sizes)} images are {pixels:,} pixels together; "
                f"at most {self._limits.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})"
            )
        self._hold(KEPT_BYTES_PER_PIXEL * pixels + max(needed, default=0))

    def _each_size(self, read: Callable[[bytes, ImageLimits], tuple[int, int]]) -> list[tuple[int, int]]:
        sizes, pixels = [], 0
        for index, body in enumerate(self._bodies):
            with self._one(index):
                width, height = read(body, self._limits.after(pixels))
            sizes.append((width, height))
            pixels += width * height
        return sizes

    def _one(self, index: int) -> AbstractContextManager[object]:
        return self._one_of_batch(index, len(self._bodies))
