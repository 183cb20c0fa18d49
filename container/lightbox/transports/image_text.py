"""Images of float32 as JSON: each distinct number is turned into digits once, and looked up after that.

An image has 256 levels in each channel, whatever its scaling. Digits for 150,000 floats take several times as long as
150,000 look-ups of texts that are equally long, which they are with blanks behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from lightbox.codecs.json_text import array_text
from lightbox.model.spec import Array

CELLS = (8, 16)
"""Bytes that a number may have with a bracket and a comma; numpy copies items of these sizes at once."""
_MOST_CHANNELS = 4
_FEW = 260  # levels, and what is no number
_GLANCE, _WORTH_IT = 4096, 10_000


def padded_text(array: Array) -> Iterable[bytes | memoryview]:
    """Return the JSON of an array of numbers or bools in pieces, where that is quicker with blanks behind numbers."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return image_text(plain) or [array_text(array)]


def image_text(array: Array) -> Iterable[bytes | memoryview] | None:
    """Return the JSON of a C-contiguous float32 array [..., channels] of few distinct values, else None.

    In pieces: what they are put together to is larger than a copy should be made of twice.
    """
    channels = array.shape[-1] if array.ndim > 1 else 0
    if array.dtype != np.float32 or not 1 <= channels <= _MOST_CHANNELS or array.size < _WORTH_IT:
        return None
    bits = array.reshape(-1, channels).view(np.uint32)
    if len(np.unique(bits[:_GLANCE, 0])) > _FEW:
        return None
    # The upper half of a float tells neighbouring levels apart: sign, exponent and 7 bits of the fraction.
    slots = ((bits >> np.uint32(16)) + np.arange(channels, dtype=np.uint32) * np.uint32(1 << 16)).astype(np.intp)
    value_of_slot = np.zeros(channels << 16, np.uint32)
    value_of_slot[slots] = bits
    if not np.array_equal(value_of_slot.take(slots), bits):
        return None
    used = np.zeros(channels << 16, bool)
    used[slots] = True
    places = np.flatnonzero(used)
    texts = array_text(value_of_slot[places].view(np.float32))[1:-1].split(b",")
    last = channels - 1
    starts = [(b"[" if place >> 16 == 0 else b"") + text for place, text in zip(places.tolist(), texts, strict=True)]
    ends = [b"]," if place >> 16 == last else b"," for place in places.tolist()]
    longest = max(len(start) + len(end) for start, end in zip(starts, ends, strict=True))
    cell = next((size for size in CELLS if size >= longest), None)
    if cell is None or len(starts) > channels * _FEW:
        return None
    number_of_slot = np.zeros(channels << 16, np.uint16)
    number_of_slot[places] = np.arange(len(places))
    # Blanks right behind numbers: the embedded server reads brackets with nothing between them, and faster.
    cells = [start.ljust(cell - len(end)) + end for start, end in zip(starts, ends, strict=True)]
    table = np.array(cells, f"V{cell}")
    pixels = table.take(number_of_slot.take(slots)).reshape(-1).view(np.uint8)
    return _nested(pixels.data, cell, array.shape)


def _nested(pixels: memoryview, cell: int, shape: tuple[int, ...]) -> Iterator[bytes | memoryview]:
    """Yield what is to be put together: rows of pixels, a comma behind each pixel, and brackets around the rows."""
    width = shape[-2] * shape[-1] * cell
    ends = [prod(shape[level:-2]) for level in range(len(shape) - 2)]
    for row in range(prod(shape[:-2])):
        yield (b",[" if row else b"[") + b"[" * sum(row % end == 0 for end in ends)
        text = pixels[row * width : (row + 1) * width]
        yield text[:-1]  # without the last comma
        yield b"]" + b"]" * sum((row + 1) % end == 0 for end in ends)
