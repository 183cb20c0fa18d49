"""From an RGB or grey image to the tensor that a model wants: resize, scale, lay out as HWC.

The scalings are those of ``keras.applications``, with the same operations in the same order in float32, so
that the numbers are equal to the last bit:

    none    0..255, as they are
    unit    x / 255                                     0..1
    tf      x / 127.5 - 1                               -1..1        mobilenet_v2, inception_v3, xception, ...
    torch   (x / 255 - mean) / std, per channel         about -2..2  densenet
    caffe   BGR, x - mean, per channel                  -124..152    resnet50, vgg16, ...

Resize and scale are compiled, with the same bits as Pillow's: the library reads Pillow's memory and writes into the
request's tensor. ``make native`` compiles native_resize.c. Pillow resizes wherever the library is missing, and what it
does not take.
"""

from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL.Image import Image, Resampling, fromarray, frombytes

from lightbox.images.resize_library import INSTRUCTIONS, LIBRARY

_FILTERS = {
    Resampling.BOX: 0,
    Resampling.BILINEAR: 1,
    Resampling.BICUBIC: 2,
    Resampling.LANCZOS: 3,
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
    def image(self) -> Image:
        """A copy for Pillow, mode RGB."""
        return frombytes("RGB", self.size, self.pixels.data, "raw", "RGBX")


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


def _pixels(image: Image | Rgbx, step: int) -> _Pixels | None:
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
        image: Image | Rgbx,
        by: Resampling,
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


def load_native(library: Path = LIBRARY) -> NativeResize | None:
    """Return the compiled resize if it is there, has AVX2 or NEON, and gives what this Pillow gives, else None."""
    try:
        native = NativeResize(library)
    except (OSError, AttributeError):
        return None
    if native.instructions == INSTRUCTIONS[0]:
        return None  # Pillow is faster than plain C
    cases = itertools.product(_BYTES, _CHECKED_SIZES, _FILTERS)
    return native if all(_agrees(native, mode, *sizes, by) for mode, sizes, by in cases) else None


def _agrees(native: NativeResize, mode: str, source: tuple[int, int], target: tuple[int, int], by: Resampling) -> bool:
    noise = np.random.default_rng(0).integers(0, 256, (source[1], source[0], 3), np.uint8)
    image = fromarray(noise).convert(mode)
    out = np.empty((target[1], target[0], len(image.getbands())), np.uint8)
    return native.resize(image, by, out) and out.tobytes() == image.resize(target, by).tobytes()


_BAND_PIXELS = 100_000
"""Source pixels that take longer to resize than a thread takes to be woken, several times."""


class Scaling(StrEnum):
    """What is done to the pixel values 0..255, by the names that Keras uses."""

    NONE = "none"
    UNIT = "unit"
    TF = "tf"
    TORCH = "torch"
    CAFFE = "caffe"


class Filter(StrEnum):
    """How an image is resized: by Pillow's filters, or by ``tf.image.resize``, which does not antialias."""

    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    NEAREST = "nearest"
    LANCZOS = "lanczos"
    BOX = "box"
    TF_BILINEAR = "tf_bilinear"
    TF_NEAREST = "tf_nearest"

    @property
    def averages(self) -> bool:
        """Whether each pixel is made of all that it covers in the source, so that a source of half the size will do."""
        return self not in (Filter.NEAREST, Filter.TF_BILINEAR, Filter.TF_NEAREST)


_TORCH_MEAN = (0.485, 0.456, 0.406)
_TORCH_STD = (0.229, 0.224, 0.225)
_CAFFE_MEAN_BGR = (103.939, 116.779, 123.68)

Float32 = npt.NDArray[np.float32]


def resize(image: Image, size: tuple[int, int], rows: range | None = None) -> Image:
    """Give the image in ``size`` (width, height), exactly as Pillow's ``image.resize(size)``; or only some ``rows``.

    An image that already has this size is returned as it is, not copied. ``rows`` are among those ``bands`` gives.
    """
    width, height = size
    if rows is None or len(rows) == height:
        return image if image.size == (width, height) else image.resize((width, height))
    # Pillow's filter reaches beyond the box where the image does: such rows are the same as if all were made.
    return image.resize((width, len(rows)), box=_box(image, height, rows))


def _box(image: Image | Rgbx, height: int, rows: range) -> Box:
    """Return the part of the source that ``rows`` among ``height`` are made of: left, top, right, bottom."""
    return (0, image.height * rows.start / height, image.width, image.height * rows.stop / height)


def to_tensor(
    image: Image,
    scaling: Scaling,
    dtype: npt.DTypeLike,
    out: npt.NDArray[np.generic] | None = None,
) -> npt.NDArray[np.generic]:
    """Give the pixels as an array [height, width, channels] of ``dtype``, scaled.

    ``image`` has mode RGB (3 channels) or L (1). With ``out``, an array of that shape and dtype (one row of
    the request's batch, say), the values are written there and it is returned. The arithmetic is float32
    whatever the dtype. Raises ValueError for a wrong ``out``; model_spec.scaling_problem tells
    which dtypes and channels can hold a scaling.
    """
    channels = len(image.getbands())
    shape = (image.height, image.width, channels)
    if out is None:
        out = np.empty(shape, dtype)
    elif out.shape != shape or out.dtype != np.dtype(dtype):
        raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}, the tensor {shape} and {dtype}")
    # Pillow turns RGB into BGR while it packs the pixels: the flip costs nothing.
    order = "BGR" if scaling is Scaling.CAFFE else image.mode
    pixels = np.frombuffer(image.tobytes("raw", order), np.uint8).reshape(shape)
    return _scaled(pixels, scaling, out)


def _write(pixels: npt.NDArray[Any], scaling: Scaling, out: npt.NDArray[np.generic]) -> None:
    """Do what ``to_tensor`` does with pixels [height, width, channels] in the order RGB."""
    _scaled(pixels[:, :, ::-1] if scaling is Scaling.CAFFE else pixels, scaling, out)


def _scaled(pixels: npt.NDArray[Any], scaling: Scaling, out: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    if scaling is Scaling.NONE:
        np.copyto(out, pixels, casting="unsafe")
    elif out.dtype == np.float32 and out.flags.c_contiguous:
        _scale(pixels, scaling, out.view(np.float32))
    else:
        scaled = np.empty(out.shape, np.float32)
        _scale(pixels, scaling, scaled)
        np.copyto(out, scaled, casting="unsafe")
    return out


def _scale(pixels: npt.NDArray[Any], scaling: Scaling, out: Float32) -> None:
    """Write scaled pixels [H, W, C] into ``out``, which is C-contiguous, without a temporary array."""
    np.copyto(out, pixels)
    rows = out.reshape(out.shape[0], -1)
    width = out.shape[1]
    match scaling:
        case Scaling.UNIT:
            rows /= np.float32(255)
        case Scaling.TF:
            rows /= np.float32(127.5)
            rows -= np.float32(1)
        case Scaling.TORCH:
            rows /= np.float32(255)
            rows -= _row(_TORCH_MEAN, width)
            rows /= _row(_TORCH_STD, width)
        case Scaling.CAFFE:
            rows -= _row(_CAFFE_MEAN_BGR, width)


@lru_cache(maxsize=8)
def _row(per_channel: tuple[float, ...], width: int) -> Float32:
    """Repeat one value per channel over a row of pixels: eight times faster than broadcasting over 3."""
    row = np.tile(np.array(per_channel, np.float32), width)
    row.flags.writeable = False
    return row


class Resizer:
    """Resizes and scales images; safe to use from several threads."""

    def __init__(self, cores: int, native: NativeResize | None = None) -> None:
        """Use at most ``cores`` for one image, and ``native`` instead of Pillow for what it takes."""
        self._cores = cores
        self._native = native
        self._helpers = ThreadPoolExecutor(max(1, cores - 1), "resize")  # the caller's thread makes a band too

    def fill(
        self,
        image: Image | Rgbx,
        scaling: Scaling,
        out: npt.NDArray[np.generic],
        by: Filter = Filter.BICUBIC,
        *,
        by_all_cores: bool,
    ) -> None:
        """Write an image, RGB or L, into ``out`` [height, width, channels], resized to that and scaled.

        Raises as to_tensor does. Pillow lets go of the interpreter while it resizes.
        """
        size = (out.shape[1], out.shape[0])
        if by is not Filter.BICUBIC and image.size != size:
            if by in (Filter.TF_BILINEAR, Filter.TF_NEAREST):
                _write(_resized_as_tensorflow(for_pillow(image), size, by), scaling, out)
            elif not self._made(image, Resampling[by.name], scaling, out, None):
                to_tensor(for_pillow(image).resize(size, Resampling[by.name]), scaling, out.dtype, out=out)
            return

        def fill(rows: range) -> None:
            part, box = out[rows.start : rows.stop], _box(image, size[1], rows)
            if not self._made(image, Resampling.BICUBIC, scaling, part, box):
                to_tensor(resize(for_pillow(image), size, rows), scaling, out.dtype, out=part)

        mine, *others = bands(image, size, self._cores if by_all_cores else 1)
        helped = [self._helpers.submit(fill, rows) for rows in others]
        fill(mine)
        for band in helped:
            band.result()

    def _made(
        self, image: Image | Rgbx, by: Resampling, scaling: Scaling, out: npt.NDArray[np.generic], box: Box | None
    ) -> bool:
        """Resize and scale by the compiled resize; False where Pillow has to, or is as quick."""
        if self._native is None or not out.flags.c_contiguous:
            return False
        if isinstance(image, Image) and (image.mode not in ("RGB", "L") or image.size == (out.shape[1], out.shape[0])):
            return False
        if out.dtype == np.uint8 and scaling is Scaling.NONE:
            return self._native.resize(image, by, out, box=box)
        if out.dtype != np.float32:
            return False
        table = _table(scaling, out.shape[2])
        return self._native.resize(image, by, out, box=box, table=table, reverse=scaling is Scaling.CAFFE)


@lru_cache(maxsize=16)
def _table(scaling: Scaling, channels: int) -> Float32:
    """Return [channels, 256]: what each value 0..255 becomes in each channel of the tensor."""
    values = np.repeat(np.arange(256, dtype=np.uint8), channels).reshape(256, 1, channels)
    scaled = _scaled(values, scaling, np.empty(values.shape, np.float32)).reshape(256, channels)
    table = np.ascontiguousarray(scaled.T, np.float32)
    table.flags.writeable = False
    return table


def _resized_as_tensorflow(image: Image, size: tuple[int, int], by: Filter) -> npt.NDArray[Any]:
    """Return what ``tf.image.resize(image, (height, width), method)`` does: float32, or uint8 by the nearest pixel."""
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    (left, right, across), (top, bottom, down) = (_sources(*sizes) for sizes in zip(image.size, size, strict=True))
    if by is Filter.TF_NEAREST:
        columns, rows = (_nearest(*sizes) for sizes in zip(image.size, size, strict=True))
        return pixels[rows][:, columns]
    across, down = across[None, :, None], down[:, None, None]

    def along_row(rows: npt.NDArray[np.int64]) -> Float32:
        first, second = (pixels[rows][:, columns].astype(np.float32) for columns in (left, right))
        return first + (second - first) * across

    above = along_row(top)
    return above + (along_row(bottom) - above) * down


def _centres(source: int, target: int) -> Float32:
    scale = np.float32(source) / np.float32(target)
    return (np.arange(target, dtype=np.float32) + np.float32(0.5)) * scale


def _sources(source: int, target: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Float32]:
    """Return for each pixel of the target the two of the source that it lies between, and how near to the second."""
    places = _centres(source, target) - np.float32(0.5)
    lower = np.floor(places)
    first = np.maximum(lower, 0).astype(np.int64)
    second = np.minimum(np.ceil(places), source - 1).astype(np.int64)
    return first, second, places - lower


def _nearest(source: int, target: int) -> npt.NDArray[np.int64]:
    return np.minimum(np.floor(_centres(source, target)), source - 1).astype(np.int64)


def for_pillow(image: Image | Rgbx) -> Image:
    """Return an image as Pillow has it, which is a copy of those pixels that are not Pillow's."""
    return image.image if isinstance(image, Rgbx) else image


def bands(image: Image | Rgbx, size: tuple[int, int], most: int) -> list[range]:
    """Cut the rows of a resized image into equal bands, at most ``most``, that can be made apart and at once.

    A power of two that divides the height: the cuts are then exact in the source, and the pixels those of the whole.
    """
    width, height = size
    count = 1
    while (
        2 * count <= most
        and height % (2 * count) == 0
        and image.width * image.height >= 2 * count * _BAND_PIXELS
        and image.size != (width, height)
        and _rows_first(image, width, height // (2 * count)) == _rows_first(image, width, height)
    ):
        count *= 2
    step = height // count
    return [range(start, start + step) for start in range(0, height, step)]


def _rows_first(image: Image | Rgbx, width: int, height: int) -> bool:
    """Tell whether Pillow brings the height down first, then the width; both round to 8 bits, so their order shows."""
    return image.height > height and image.height - height > 2 * (image.width - width)
