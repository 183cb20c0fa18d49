"""Pillow's resize with the same bits, in C: it reads Pillow's memory and writes into the request's tensor.

``make native`` compiles native_resize.c. Pillow resizes wherever the library is missing, and what it does not take.
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from lightbox.images.resize_library import INSTRUCTIONS, LIBRARY

_FILTERS = {
    Image.Resampling.BOX: 0,
    Image.Resampling.BILINEAR: 1,
    Image.Resampling.BICUBIC: 2,
    Image.Resampling.LANCZOS: 3,
}
_BYTES = {"RGB": 4, "L": 1}  # of a pixel in Pillow's memory
_CHECKED_SIZES = (((67, 45), (24, 31)), ((45, 90), (40, 13)), ((20, 20), (37, 50)))

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Rgbx:
    """A decoded image as simplejpeg leaves it and ``NativeResize`` reads it.

    ``pixels`` are uint8 [height, width, 4], of which the fourth byte says nothing.
    """

    pixels: npt.NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Pixels from left to right."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return int(self.pixels.shape[0])

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, as Pillow has it."""
        return self.width, self.height

    @cached_property
    def image(self) -> Image.Image:
        """A copy for Pillow, mode RGB."""
        return Image.frombytes("RGB", self.size, self.pixels.data, "raw", "RGBX")


class _ArrowArray(ctypes.Structure):
    """Arrow's C data interface, as far as it is read."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Pixels(NamedTuple):
    address: int | None
    length: int
    owner: object


def _pixels(image: Image.Image | Rgbx, step: int) -> _Pixels | None:
    """Find an image's memory, ``step`` bytes a pixel and no gaps; None if a large one has several pieces of it."""
    if isinstance(image, Rgbx):
        return _Pixels(image.pixels.ctypes.data, image.pixels.nbytes, image.pixels)
    image.load()
    try:
        owner = image.__arrow_c_array__()
    except ValueError:
        return None
    pixels = _ArrowArray.from_address(_capsule_pointer(owner[1], b"arrow_array"))
    source = pixels.children[0].contents if step == 4 else pixels
    if pixels.offset or source.offset or source.length != image.width * image.height * step:
        return None
    return _Pixels(source.buffers[1], source.length, owner)


class NativeResize:
    """The compiled resize; safe to use from several threads, which run at the same time."""

    def __init__(self, library: Path = LIBRARY, *, at_most: str = INSTRUCTIONS[-1]) -> None:
        """Raise OSError if ``library`` cannot be loaded; use none but the ``INSTRUCTIONS`` up to ``at_most``."""
        loaded = ctypes.CDLL(str(library))
        self._resize = loaded.lightbox_resize
        number, address, size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
        self._resize.argtypes = [address, size, number, number, number, *[ctypes.c_float] * 4, number, number]
        self._resize.argtypes += [address, address, size, number, number, number]
        self._used = min(INSTRUCTIONS.index(at_most), loaded.lightbox_instructions())
        self.instructions = INSTRUCTIONS[self._used]

    def resize(
        self,
        image: Image.Image | Rgbx,
        by: Image.Resampling,
        out: npt.NDArray[np.generic],
        *,
        box: Box | None = None,
        table: npt.NDArray[np.float32] | None = None,
        reverse: bool = False,
    ) -> bool:
        """Resize as ``image.resize`` does into ``out`` [height, width, channels]: uint8, or float32 by ``table``.

        ``table`` [channels, 256] has the float32 for each value of each channel of ``out``. ``reverse`` makes BGR
        of RGB. Returns False, and leaves ``out`` alone, for what only Pillow can do. Raises ValueError for arguments
        that do not fit one another.
        """
        step = 4 if isinstance(image, Rgbx) else _BYTES.get(image.mode)
        if step is None or by not in _FILTERS:
            return False
        dtype = np.dtype(np.uint8 if table is None else np.float32)
        channels = 3 if step == 4 else 1
        if out.dtype != dtype or out.ndim != 3 or out.shape[2] != channels:
            raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}, expected [h, w, {channels}] of {dtype}")
        if not (out.flags.c_contiguous and out.flags.writeable and out.flags.aligned):
            raise ValueError("out must be contiguous, aligned and writeable")
        if table is not None and not (
            table.shape == (channels, 256) and table.dtype == np.float32 and table.flags.c_contiguous
        ):
            raise ValueError(
                f"table has shape {table.shape} and dtype {table.dtype}, expected ({channels}, 256), float32"
            )
        if (pixels := _pixels(image, step)) is None:
            return False
        code = self._resize(
            pixels.address,
            pixels.length,
            image.width,
            image.height,
            step,
            *(box or (0, 0, image.width, image.height)),
            _FILTERS[by],
            reverse,
            None if table is None else table.ctypes.data,
            out.ctypes.data,
            out.nbytes,
            out.shape[1],
            out.shape[0],
            self._used,
        )
        del pixels  # it keeps them alive until here
        if code == 1:
            raise MemoryError(f"no memory to resize {image.size} to {out.shape}")
        if code:
            raise ValueError(f"cannot resize the box {box} of {image.size} to {out.shape}")
        return True


def load(library: Path = LIBRARY) -> NativeResize | None:
    """Return the compiled resize if it is there, has AVX2 or NEON, and gives what this Pillow gives, else None."""
    try:
        native = NativeResize(library)
    except (OSError, AttributeError):
        return None
    if native.instructions == INSTRUCTIONS[0]:
        return None  # Pillow is faster than plain C
    cases = itertools.product(_BYTES, _CHECKED_SIZES, _FILTERS)
    return native if all(_agrees(native, mode, *sizes, by) for mode, sizes, by in cases) else None


def _agrees(
    native: NativeResize, mode: str, source: tuple[int, int], target: tuple[int, int], by: Image.Resampling
) -> bool:
    noise = np.random.default_rng(0).integers(0, 256, (source[1], source[0], 3), np.uint8)
    image = Image.fromarray(noise).convert(mode)
    out = np.empty((target[1], target[0], len(image.getbands())), np.uint8)
    return native.resize(image, by, out) and out.tobytes() == image.resize(target, by).tobytes()
