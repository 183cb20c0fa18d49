"""Resizing of RGB or grey images into the pixels of a tensor: the whole image or the needed part.

The compiled resize gives the same bits as Pillow: the library reads Pillow's memory and writes into the request's
tensor in one pass, for every crop, padding, scaling, order of channels and layout. ``make native`` compiles resize.c
of ``model_runtime/native``. Pillow resizes if the library is missing, and in the cases that it does not support.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL.Image import Image, Resampling, frombytes

from lightbox.images.preparation import Filter, Float32, Placement, Preparation, Scaling, Size, table_of
from lightbox.images.resize_library import INSTRUCTIONS
from lightbox.model_runtime.native import LIBRARY

_FILTERS = {
    Resampling.BOX: 0,
    Resampling.BILINEAR: 1,
    Resampling.BICUBIC: 2,
    Resampling.LANCZOS: 3,
}
_PILLOWS = {
    Filter.BICUBIC: Resampling.BICUBIC,
    Filter.BILINEAR: Resampling.BILINEAR,
    Filter.NEAREST: Resampling.NEAREST,
    Filter.LANCZOS: Resampling.LANCZOS,
    Filter.BOX: Resampling.BOX,
}
INTERPOLATING = (Filter.TF_BILINEAR, Filter.OPENCV_BILINEAR, Filter.OPENVINO_BILINEAR)
"""Filters that take two pixels in each direction, of however large an image."""
_ONE = 2048
"""The weights of OpenCV's bilinear filter are whole numbers of this, two of which add up to it."""
_UNCHANGED = (Scaling.NONE, None, None)
_BYTES = {"RGB": 4, "L": 1}  # of a pixel in Pillow's memory
_CHECKED_SIZES = (((67, 45), (24, 31)), ((45, 90), (40, 13)), ((20, 20), (37, 50)))


@dataclass(frozen=True)
class Rgbx:
    """A decoded image in the form that simplejpeg writes and ``NativeResize`` reads.

    ``pixels`` are uint8 [height, width, 4]; the fourth byte is unused.
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
        """Width and height, as in Pillow."""
        height, width, _ = self.pixels.shape
        return width, height

    @cached_property
    def image(self) -> Image:
        """A copy for Pillow in mode RGB."""
        return frombytes("RGB", self.size, self.pixels.data, "raw", "RGBX")


class _ArrowArray(ctypes.Structure):
    """Arrow's C data interface, without the unused parts."""


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


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])  # without the objects of ``array.ctypes``


def _pixels(image: Image | Rgbx, step: int) -> _Pixels | None:
    """Return an image's memory, ``step`` bytes a pixel without gaps; None for a large image in several blocks."""
    if isinstance(image, Rgbx):
        return _Pixels(_address(image.pixels), image.pixels.nbytes, image.pixels)
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


class _Target(ctypes.Structure):
    _fields_ = [
        ("memory", ctypes.c_void_p),
        ("row", ctypes.c_ssize_t),
        ("pixel", ctypes.c_ssize_t),
        ("channel", ctypes.c_ssize_t),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
    ]


class NativeResize:
    """The compiled resize; safe to use from several threads at the same time."""

    def __init__(self, library: Path = LIBRARY, *, at_most: str = INSTRUCTIONS[-1]) -> None:
        """Raise OSError if ``library`` cannot be loaded; use only ``INSTRUCTIONS`` up to ``at_most``."""
        loaded = ctypes.CDLL(str(library))
        number, address, size, target = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Target)
        self._resize, self._interpolate = loaded.lightbox_resize, loaded.lightbox_interpolate
        self._resize.argtypes = [address, size, *[number] * 7, target, number, address, number]
        self._interpolate.argtypes = [address, size, *[number] * 7, target, number]
        self._used = min(INSTRUCTIONS.index(at_most), loaded.lightbox_instructions())
        self.instructions = INSTRUCTIONS[self._used]

    def resize(
        self,
        image: Image | Rgbx,
        by: Resampling,
        out: npt.NDArray[np.generic],
        *,
        placement: Placement | None = None,
        table: npt.NDArray[np.float32] | None = None,
    ) -> bool:
        """Resize as ``image.resize`` does into ``out`` [height, width, channels]: uint8, or float32 by ``table``.

        ``out`` may have any strides. The image is resized to its size, or as ``placement`` says, which then covers it.
        ``table`` [channels, 256] has the float32 for each value of each channel. Returns False, with ``out`` unchanged,
        in the cases for Pillow. Raises ValueError for arguments that do not fit each other.
        """
        if by not in _FILTERS:
            return False
        channels = 3 if isinstance(image, Rgbx) else len(image.getbands())
        if table is not None and not (
            table.shape == (channels, 256) and table.dtype == np.float32 and table.flags.c_contiguous
        ):
            raise ValueError(
                f"table has shape {table.shape} and dtype {table.dtype}, expected ({channels}, 256), float32"
            )
        values = None if table is None else _address(table)
        dtype = np.uint8 if table is None else np.float32
        return self._make(self._resize, image, out, dtype, placement, _FILTERS[by], values, self._used)

    def interpolate(
        self,
        image: Image | Rgbx,
        by: Filter,
        out: npt.NDArray[np.generic],
        *,
        placement: Placement | None = None,
    ) -> bool:
        """Resize to float32 by a filter of ``INTERPOLATING``; otherwise as ``resize``."""
        done = self._make(self._interpolate, image, out, np.float32, placement, by is Filter.OPENCV_BILINEAR)
        if done and by is Filter.OPENVINO_BILINEAR:
            levels = out.view(np.float32)
            np.rint(levels, out=levels)
        return done

    def _make(
        self,
        function: Callable[..., int],
        image: Image | Rgbx,
        out: npt.NDArray[np.generic],
        dtype_like: npt.DTypeLike,
        placement: Placement | None,
        *more: int | None,
    ) -> bool:
        step = 4 if isinstance(image, Rgbx) else _BYTES.get(image.mode)
        if step is None:
            return False
        dtype, channels = np.dtype(dtype_like), 3 if step == 4 else 1
        if out.dtype != dtype or out.ndim != 3 or out.shape[2] != channels:
            raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}, expected [h, w, {channels}] of {dtype}")
        if not (out.flags.writeable and out.flags.aligned):
            raise ValueError("out must be aligned and writeable")
        if (pixels := _pixels(image, step)) is None:
            return False
        whole, left, top = placement or Placement((out.shape[1], out.shape[0]))
        target = _Target(_address(out), *out.strides, out.shape[1], out.shape[0])
        code = function(pixels.address, pixels.length, *image.size, step, *whole, -left, -top, target, *more)
        del pixels  # keeps them alive until here
        if code == 1:
            raise MemoryError(f"no memory to resize {image.size} to {out.shape}")
        if code:
            raise ValueError(f"cannot resize {image.size} to {whole}, placed at {left}, {top} of {out.shape}")
        return True


@cache
def load_native(library: Path = LIBRARY) -> NativeResize | None:
    """Return the compiled resize if it exists, has AVX2 or NEON, and matches this Pillow, else None."""
    try:
        native = NativeResize(library)
    except (OSError, AttributeError):
        return None
    if native.instructions == INSTRUCTIONS[0]:
        return None  # Pillow is faster than plain C
    filters: tuple[Resampling | Filter, ...] = (*_FILTERS, *INTERPOLATING)
    cases = itertools.product(_BYTES, _CHECKED_SIZES, filters)
    return native if all(_agrees(native, mode, *sizes, by) for mode, sizes, by in cases) else None


def noise(size: Size) -> Image:
    """Return the same random RGB pixels at each call. numpy's random numbers would take 2 MB of each process."""
    width, height = size
    return frombytes("RGB", size, Random(0).randbytes(width * height * 3))  # noqa: S311 - not a secret


def _agrees(native: NativeResize, mode: str, source: Size, target: Size, by: Resampling | Filter) -> bool:
    """Return whether resizing matches Pillow, or numpy's version of another filter."""
    image = noise(source).convert(mode)
    shape = (target[1], target[0], len(image.getbands()))
    if isinstance(by, Filter):
        floats = np.empty(shape, np.float32)
        made = _by_numpy(image, by, Placement(target), target)
        return native.interpolate(image, by, floats) and np.array_equal(floats, made)
    out = np.empty(shape, np.uint8)
    return native.resize(image, by, out) and out.tobytes() == image.resize(target, by).tobytes()


_BAND_PIXELS = 100_000
"""Source pixels above which resizing takes several times as long as waking a thread."""


class Resizer:
    """Resizes and scales images; safe to use from several threads."""

    def __init__(self, cores: int, native: NativeResize | None = None) -> None:
        """Use at most ``cores`` for one image, and ``native`` in place of Pillow where possible."""
        self._cores = cores
        self._native = native
        self._helpers = ThreadPoolExecutor(max(1, cores - 1), "resize")  # the caller's thread makes a band too

    def fill(
        self,
        image: Image | Rgbx,
        out: npt.NDArray[np.generic],
        preparation: Preparation,
        placement: Placement | None = None,
        *,
        by_all_cores: bool,
    ) -> None:
        """Write an image, RGB or L, into ``out`` [height, width, channels] of any strides.

        It is resized and placed by ``placement``, or by ``preparation``. Pillow releases the interpreter lock.
        """
        height, width = out.shape[:2]
        whole, left, top = placement or preparation.fitting.place(image.size, (width, height))
        rows, columns = _shown(top, whole[1], height), _shown(left, whole[0], width)
        for edge in (out[: rows.start], out[rows.stop :], out[rows, : columns.start], out[rows, columns.stop :]):
            if edge.size:
                preparation.values.fill(edge, preparation.padding)
        inside = out[rows, columns]
        bands = self._bands(image, len(inside), whole) if by_all_cores else 1

        def make(band: int) -> None:
            start, stop = (number * len(inside) // bands for number in (band, band + 1))
            covering = Placement(whole, left - columns.start, top - rows.start - start)
            self._make(image, preparation, covering, inside[start:stop])

        helped = [self._helpers.submit(make, band) for band in range(1, bands)]
        make(0)
        for one in helped:
            one.result()

    def _bands(self, image: Image | Rgbx, rows: int, whole: Size) -> int:
        """Return the number of bands of rows to make in parallel; the pixels do not depend on it."""
        if self._native is None or image.size == whole:
            return 1
        return max(1, min(self._cores, rows, image.width * image.height // _BAND_PIXELS))

    def _make(
        self, image: Image | Rgbx, preparation: Preparation, covering: Placement, out: npt.NDArray[np.generic]
    ) -> None:
        """Resize an image into ``out``, with the compiled resize if it can, and is faster."""
        is_resized = isinstance(image, Rgbx) or image.size != covering.size
        if not (
            is_resized and self._native is not None and self._made(self._native, image, preparation, covering, out)
        ):
            pixels = _by_numpy(for_pillow(image), preparation.by, covering, (out.shape[1], out.shape[0]))
            preparation.values.write(pixels, out)

    def _made(
        self,
        native: NativeResize,
        image: Image | Rgbx,
        preparation: Preparation,
        covering: Placement,
        out: npt.NDArray[np.generic],
    ) -> bool:
        by, values = preparation.by, preparation.values
        there = out[:, :, ::-1] if values.bgr else out
        if out.dtype == np.float32 and by in INTERPOLATING:
            done = native.interpolate(image, by, there, placement=covering)
            if done:
                values.scale(out.view(np.float32))
            return done
        if by in _PILLOWS and out.dtype == np.float32:
            table = table_of(values, out.shape[2], out.dtype)
            return native.resize(image, _PILLOWS[by], there, placement=covering, table=table)
        if by in _PILLOWS and out.dtype == np.uint8 and (values.scaling, values.mean, values.std) == _UNCHANGED:
            return native.resize(image, _PILLOWS[by], there, placement=covering)
        return False


def _shown(start: int, size: int, of: int) -> slice:
    """Return the input's rows, or columns, of an image of a ``size`` that begins at ``start``."""
    return slice(max(0, start), min(of, start + size))


def _by_numpy(image: Image, by: Filter, covering: Placement, size: Size) -> npt.NDArray[Any]:
    """Return the visible part of a resized image as pixels [height, width, channels], uint8 or float32."""
    whole, columns, rows = covering.size, *(slice(-at, -at + side) for at, side in zip(covering[1:], size, strict=True))
    if by not in _PILLOWS and image.size != whole:
        made = _interpolated(image, by, whole, columns, rows)
        return made if by in (Filter.TF_BILINEAR, Filter.TF_NEAREST) else np.rint(made).astype(np.uint8)
    resized = image if image.size == whole else image.resize(whole, _PILLOWS[by])
    pixels = np.asarray(resized.crop((columns.start, rows.start, columns.stop, rows.stop)))
    return pixels.reshape(size[1], size[0], -1)


def _interpolated(image: Image, by: Filter, whole: Size, columns: slice, rows: slice) -> npt.NDArray[Any]:
    """Return a part of ``tf.image.resize(image, (height, width), method)``, or of ``cv2.resize(image, whole)``.

    It is float32, whole numbers for OpenCV, or uint8 for the nearest pixel.
    """
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    if by is Filter.TF_NEAREST:
        return pixels[_nearest(image.height, whole[1])[rows]][:, _nearest(image.width, whole[0])[columns]]
    is_opencv = by is Filter.OPENCV_BILINEAR
    (left, right, across), (top, bottom, down) = (
        _sources(source, target, is_opencv) for source, target in zip(image.size, whole, strict=True)
    )
    across, down = across[None, columns, None], down[rows, None, None]

    def along_row(chosen: npt.NDArray[np.int64]) -> Any:
        lines = pixels[chosen[rows]]
        first, second = (lines[:, found[columns]].astype(across.dtype) for found in (left, right))
        return (first * (_ONE - across) + second * across) >> 4 if is_opencv else first + (second - first) * across

    above, below = along_row(top), along_row(bottom)
    if is_opencv:
        made = ((above * (_ONE - down) >> 16) + (below * down >> 16) + 2) >> 2
    else:
        made = above + (below - above) * down
    return np.asarray(made, np.float32)


def _centres(source: int, target: int) -> Float32:
    scale = np.float32(source) / np.float32(target)
    return (np.arange(target, dtype=np.float32) + np.float32(0.5)) * scale


def _sources(
    source: int, target: int, is_opencv: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return for each target pixel the two source pixels around it, and the weight of the second."""
    if is_opencv:  # it divides twice, in float64
        places = ((np.arange(target) + 0.5) * (1 / (target / source)) - 0.5).astype(np.float32)
    else:
        places = _centres(source, target) - np.float32(0.5)
    lower = np.floor(places)
    first = np.maximum(lower, 0).astype(np.int64)
    second = np.minimum(np.ceil(places), source - 1).astype(np.int64)
    near = places - lower
    return first, second, np.rint(near * np.float32(_ONE)).astype(np.int32) if is_opencv else near


def _nearest(source: int, target: int) -> npt.NDArray[np.int64]:
    return np.minimum(np.floor(_centres(source, target)), source - 1).astype(np.int64)


def for_pillow(image: Image | Rgbx) -> Image:
    """Return an image for Pillow, a copy if its pixels are not Pillow's."""
    return image.image if isinstance(image, Rgbx) else image
