"""The limits of images: checked before pixels are decoded, and during decoding."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import islice
from time import thread_time

from PIL import Image, TiffImagePlugin
from PIL.Image import DecompressionBombError
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.WebPImagePlugin import WebPImageFile
from typing_extensions import override

from lightbox.base.error_texts import shorten
from lightbox.base.errors import ImageUndecodable, LightboxError, TooLarge
from lightbox.images.avif import Avif
from lightbox.images.foreign import RAW

MAX_PIXELS_SETTING = "LIGHTBOX_MAX_IMAGE_PIXELS"
PIXELS_OF_REQUEST = 10
"""Ratio of a request's pixels to those of one image."""
BYTES_OF_PIXEL = 8
"""Bytes of memory for decoding, for each allowed pixel."""
LEAST_MEMORY_MB = 400
"""Minimum limit of memory for decoding."""
SCANNED_PIXELS = 2_500_000_000
"""Scans of a JPEG times its pixels; each takes up to a nanosecond. 50 scans of 50 megapixels."""

TIFF_VALUES = 1 << 18
"""Numbers in one TIFF tag. Pillow makes a Python object of each; 512 x 512 tiles need as many."""

BOUNDED_DECODERS = {"bmp_rle"}
"""Pillow's decoders in Python, which read piece by piece: TimeLimitedBytes stops them."""

_BMP_WITH_COUNT = 40
"""Size of the smallest BMP header with the number of colours."""
JPEG_BYTES_PER_PIXEL = 8
"""Memory for a JPEG of one scan: the decoded image and its copy, which only a turned one has."""
_START_OF_SCAN = b"\xff\xda"
_TIFF_BYTE_TYPES = frozenset({1, 2, 7})
_NEW_SUBFILE_TYPE, _PHOTOMETRIC, _SUB_DIRECTORIES, _DNG_VERSION = 254, 262, 330, 50706
_START_OF_CR2 = b"II*\0\x10\0\0\0CR\2"
_OF_SENSORS = frozenset({32803, 34892})
"""Photometric interpretations: a colour filter array, and linear RAW."""
_SHORT, _POINTERS = 3, {4: "L", 13: "L", 16: "Q", 18: "Q"}
_MOST_SUB_DIRECTORIES, _MOST_TAGS_BELOW = 16, 256
_BYTES_PER_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
# libwebp's canvas, the previous one and the copy between decoder and image: 4 bytes each. The first two stay.
_WEBP_WORKING, _WEBP_HELD = 12.5, 8
# Planes of 16 bits with alpha, their RGBA and Pillow's copy.
_AVIF_WORKING = 16


@dataclass(frozen=True)
class ImageLimits:
    """Limits of one image and of a request's images; beyond them TooLarge (413) is raised."""

    max_pixels: int = 50_000_000
    """Width times height. LIGHTBOX_MAX_IMAGE_PIXELS."""

    max_request_pixels: int = 500_000_000
    """Pixels of all images of a request together."""

    pixels_before: int = 0
    """Pixels of the request's earlier images."""

    max_side: int = 65_535
    """Pixels in one direction; resizing takes 32 bytes for each."""

    max_memory_mb: int = LEAST_MEMORY_MB
    """Peak memory of decoding in MB, estimated from the header."""

    header_cpu_seconds: float = 1.0
    """CPU time for everything before the pixels; only hostile files come near it."""

    cpu_seconds: float = 4.0
    """CPU time for the whole file, as far as it is read piece by piece."""

    @classmethod
    def of(cls, max_pixels: int) -> ImageLimits:
        """Return the limits for the allowed pixels of one image."""
        memory_mb = max(LEAST_MEMORY_MB, BYTES_OF_PIXEL * max_pixels // 1_000_000)
        return cls(max_pixels, PIXELS_OF_REQUEST * max_pixels, max_memory_mb=memory_mb)

    def after(self, pixels: int) -> ImageLimits:
        """Return the limits of a request's next image after images of ``pixels`` together."""
        return replace(self, pixels_before=pixels) if pixels else self

    def check_size(self, width: int, height: int) -> None:
        """Raise TooLarge if an image of ``width`` x ``height`` pixels exceeds the limits."""
        if width * height > self.max_pixels:
            raise TooLarge(
                f"The image has {width} x {height} = {width * height:,} pixels; "
                f"at most {self.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})."
            )
        if max(width, height) > self.max_side:
            raise TooLarge(
                f"The image has {width} x {height} pixels; at most {self.max_side:,} are accepted in one direction."
            )
        if (together := self.pixels_before + width * height) > self.max_request_pixels:
            raise TooLarge(
                f"The images of the request up to this one have {together:,} pixels; "
                f"at most {self.max_request_pixels:,} are accepted, {PIXELS_OF_REQUEST} times {MAX_PIXELS_SETTING}."
            )

    def check_memory(self, estimate: int) -> None:
        """Raise TooLarge if decoding, ``estimate`` in bytes, takes more than ``max_memory_mb``."""
        if estimate > self.max_memory_mb * 1_000_000:
            raise TooLarge(
                f"Decoding the image would take about {estimate // 1_000_000:,} MB; "
                f"at most {self.max_memory_mb:,} MB are allowed: {BYTES_OF_PIXEL} bytes for each of "
                f"{MAX_PIXELS_SETTING}, and never less than {LEAST_MEMORY_MB} MB."
            )


def check_header(name: str, body: bytes, limits: ImageLimits) -> None:
    """Check the parts of a header on which Pillow would spend time: WEBP's canvas, TIFF's tags, BMP's palette.

    A camera's RAW file is refused: its first image, which Pillow would read, is a preview. Raises TooLarge or
    ImageUndecodable, or struct.error for a truncated header.
    """
    Image.MAX_IMAGE_PIXELS = _at_least(Image.MAX_IMAGE_PIXELS, limits.max_pixels)
    if name == "WEBP":
        limits.check_size(*_webp_size(body))
    elif name == "TIFF":
        _check_tiff_tags(body)
        if _is_raw(body):
            raise ImageUndecodable(f"Expected an image, got {RAW}.")
    elif name == "BMP":
        _check_bmp_palette(body)


def check_decoding(image: ImageFile, body: bytes, limits: ImageLimits) -> None:
    """Check the cost of load(): decoders in Python, JPEG scans, memory.

    Raises TooLarge or ImageUndecodable.
    """
    slow = {tile.codec_name for tile in image.tile} & Image.DECODERS.keys() - BOUNDED_DECODERS
    if slow:
        raise ImageUndecodable(f"The {image.format} image has the encoding {min(slow)}, which is not accepted.")
    scans = _scans(image, body) if isinstance(image, JpegImageFile) else 1
    pixels = image.width * image.height
    if scans * pixels > SCANNED_PIXELS:
        raise ImageUndecodable(
            f"The JPEG image has {scans} scans of {image.width} x {image.height} pixels; "
            f"at most {SCANNED_PIXELS // pixels} are decoded at this size."
        )
    limits.check_memory(_peak_memory(image, image.size, several_scans=scans > 1))


def decoding_bytes(image: ImageFile, body: bytes, stored: tuple[int, int]) -> int:
    """Return an estimate of the memory for load(); ``stored`` is the size before a reduction to the image's."""
    several = isinstance(image, JpegImageFile) and _scans(image, body) > 1
    return _peak_memory(image, stored, several_scans=several)


def _scans(image: JpegImageFile, body: bytes) -> int:
    """Return a lower bound of the scans that libjpeg will read; ``image.fp`` is after the head of the first."""
    head = _START_OF_SCAN + struct.pack(">HB", 6 + 2 * image.layers, image.layers)
    # A single scan of all components ends a non-progressive file. Most are such, and need no search.
    interleaved = image.fp is not None and body.startswith(head, image.fp.tell() - 8 - 2 * image.layers)
    return 1 if interleaved and "progressive" not in image.info else body.count(_START_OF_SCAN)


def _at_least(pillow_limit: int | None, ours: int) -> int | None:
    # Only raised, never lowered or removed: handlers that call Pillow themselves stay protected.
    return None if pillow_limit is None else max(pillow_limit, ours)


def _webp_size(body: bytes) -> tuple[int, int]:
    kind = body[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (24, 27))
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", body, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", body, 26))
    return width, height


def _check_bmp_palette(body: bytes) -> None:
    """Pillow reads every declared colour, up to 65,536 in a file of a hundred bytes."""
    (header,) = struct.unpack_from("<L", body, 14)
    if header < _BMP_WITH_COUNT:
        return
    bits, colours = struct.unpack_from("<H16xL", body, 28)
    if bits <= 8 and colours > 256 and 4 * colours > len(body):
        raise ImageUndecodable(f"The BMP image declares a palette of {colours:,} colours, more than the file holds.")


def _check_tiff_tags(body: bytes) -> None:
    for tag, kind, count, _ in _tiff_tags(body):
        if count > TIFF_VALUES and kind not in _TIFF_BYTE_TYPES:
            raise ImageUndecodable(
                f"The TIFF image has {count:,} values in tag {tag}; at most {TIFF_VALUES:,} are read."
            )


def _is_raw(body: bytes) -> bool:
    """Return whether a TIFF is a DNG or CR2, or has its preview first, or a sensor's data in a directory below it."""
    tags = {tag: (kind, count, field) for tag, kind, count, field in _tiff_tags(body)}
    if body.startswith(_START_OF_CR2) or _DNG_VERSION in tags:
        return True
    kind, count, field = tags.get(_SUB_DIRECTORIES, (0, 0, b""))
    if kind not in _POINTERS:
        return False
    order = "<" if body.startswith(b"II") else ">"
    of_subfile, _, subfile = tags.get(_NEW_SUBFILE_TYPE, (0, 0, b""))
    subfile = subfile[: 2 if of_subfile == _SHORT else 4]
    if int.from_bytes(subfile, "little" if order == "<" else "big") & 1:  # a reduced picture
        return True
    form = order + _POINTERS[kind]
    size = struct.calcsize(form)
    with suppress(struct.error):  # a broken one does not matter: Pillow reads the first directory only
        if count * size > len(field):
            at = struct.unpack(order + ("Q" if len(field) == 8 else "L"), field)[0]
            field = body[at : at + size * min(count, _MOST_SUB_DIRECTORIES)]
        for (start,) in struct.iter_unpack(form, field[: size * count]):
            for tag, _, _, value in islice(_tiff_tags(body, start), _MOST_TAGS_BELOW):
                if tag == _PHOTOMETRIC and struct.unpack_from(order + "H", value)[0] in _OF_SENSORS:
                    return True
    return False


def _tiff_tags(body: bytes, start: int | None = None) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield tag, type, count and field of each entry of a directory, by default the first one; raise struct.error
    outside the file."""
    order = "<" if body.startswith(b"II") else ">"
    pointer, number, entry = ("4xQ", "Q", "HHQ8s") if body[2] == 43 else ("L", "H", "HHL4s")
    if start is None:
        (start,) = struct.unpack_from(order + pointer, body, 4)
    (entries,) = struct.unpack_from(order + number, body, start)
    first = start + struct.calcsize(order + number)
    size = struct.calcsize(order + entry)
    present = min(entries, (len(body) - first) // size)
    yield from struct.iter_unpack(order + entry, memoryview(body)[first : first + present * size])


def _peak_memory(image: ImageFile, stored: tuple[int, int], *, several_scans: bool) -> int:
    """Return an estimate in bytes: the larger of decoding, and of the decoded image with its RGB copy."""
    pixels = image.width * image.height
    decoded = pixels * _BYTES_PER_PIXEL.get(image.mode, 4)
    working = held = 0.0
    if isinstance(image, WebPImageFile):
        working, held = pixels * _WEBP_WORKING, pixels * _WEBP_HELD
    elif isinstance(image, Avif):
        working = pixels * _AVIF_WORKING
    elif isinstance(image, JpegImageFile) and several_scans:
        working = stored[0] * stored[1] * 2 * image.layers  # all coefficients at once, 16 bits each
    elif isinstance(image, TiffImagePlugin.TiffImageFile):
        working = _tiff_block(image.tag_v2)
    return int(decoded + max(working, held + 4 * pixels))


def _tiff_block(tags: TiffImagePlugin.ImageFileDirectory_v2) -> int:
    """Return the bytes of one tile or strip, which libtiff decodes as a whole, however much is outside the image."""
    bits = tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))
    samples = max(len(bits), tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1))
    width, height = tags[TiffImagePlugin.IMAGEWIDTH], tags[TiffImagePlugin.IMAGELENGTH]
    if TiffImagePlugin.TILEWIDTH in tags:
        width, height = tags[TiffImagePlugin.TILEWIDTH], tags[TiffImagePlugin.TILELENGTH]
    elif TiffImagePlugin.ROWSPERSTRIP in tags:
        height = min(height, tags[TiffImagePlugin.ROWSPERSTRIP])
    return int(width * height * max(4, samples * max(bits) / 8))


REASON_LIMIT = 160
"""Characters of Pillow's message in an error; it may quote the caller's bytes."""


# Failures inside Pillow whose messages do not help the sender.
_SLIPS = (
    struct.error,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)
_EMPTY_WORDS = frozenset({"", "not identified by this driver"})
_READS_BETWEEN_LOOKS = 16


class Undecodable(AbstractContextManager[None]):
    """Raises ImageUndecodable (400) for any exception in the block; ``name`` describes the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, LightboxError):
            return
        if isinstance(error, DecompressionBombError):
            raise TooLarge(f"The {self._name} has more pixels than are accepted ({MAX_PIXELS_SETTING}).") from error
        if isinstance(error, MemoryError):
            raise TooLarge(f"The {self._name} needs more memory than is available.") from error
        # Decoders of hostile files raise a dozen unrelated types (OSError, SyntaxError, struct.error,
        # KeyError, zlib.error, RecursionError, ...), and a new release may add one. None of them is a 500.
        raise ImageUndecodable(f"The {self._name} cannot be decoded: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    words = " ".join(str(error).split()).rstrip(".")
    wrapped = error.__cause__ if str(error.__cause__) == str(error) else None
    if isinstance(error, _SLIPS) or isinstance(wrapped, _SLIPS) or words in _EMPTY_WORDS:
        return "it is truncated or damaged"
    return shorten(words, REASON_LIMIT)


class TimeLimitedBytes(BytesIO):
    """A body for a decoder whose reads fail after a limit of the thread's CPU time.

    Pillow parses markers, chunks and tags in Python loops. A file with millions of them, or with thousands of
    compressed texts, would block a worker for minutes. Each round of such a loop reads, and so stops at the limit.
    Other threads' CPU time does not count. The body is not copied.
    """

    def __init__(self, body: bytes, cpu_seconds: float) -> None:
        super().__init__(body)
        self._reads = 0
        self._started = thread_time()
        self._cpu_seconds = cpu_seconds

    def allow(self, cpu_seconds: float) -> None:
        """Set the limit of CPU time, in seconds since construction."""
        self._cpu_seconds = cpu_seconds

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as BytesIO does; raise ImageUndecodable after the limit."""
        self._reads += 1
        if self._reads % _READS_BETWEEN_LOOKS == 0 and thread_time() - self._started > self._cpu_seconds:
            raise ImageUndecodable(f"Reading the image took more than {self._cpu_seconds:g} s of processor time.")
        return super().read(size)
