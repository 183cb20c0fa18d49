"""From an RGB or grey image to the tensor that a model wants: resize, scale, lay out as HWC.

The scalings are those of ``keras.applications``, with the same operations in the same order in float32, so
that the numbers are equal to the last bit:

    none    0..255, as they are
    unit    x / 255                                     0..1
    tf      x / 127.5 - 1                               -1..1        mobilenet_v2, inception_v3, xception, ...
    torch   (x / 255 - mean) / std, per channel         about -2..2  densenet
    caffe   BGR, x - mean, per channel                  -124..152    resnet50, vgg16, ...
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL.Image import Image


class Scaling(StrEnum):
    """What is done to the pixel values 0..255, by the names that Keras uses."""

    NONE = "none"
    UNIT = "unit"
    TF = "tf"
    TORCH = "torch"
    CAFFE = "caffe"


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
    box = (0, image.height * rows.start / height, image.width, image.height * rows.stop / height)
    return image.resize((width, len(rows)), box=box)


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
    if scaling is Scaling.NONE:
        np.copyto(out, pixels, casting="unsafe")
    elif out.dtype == np.float32 and out.flags.c_contiguous:
        _scale(pixels, scaling, out.view(np.float32))
    else:
        scaled = np.empty(shape, np.float32)
        _scale(pixels, scaling, scaled)
        np.copyto(out, scaled, casting="unsafe")
    return out


def _scale(pixels: npt.NDArray[np.uint8], scaling: Scaling, out: Float32) -> None:
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
