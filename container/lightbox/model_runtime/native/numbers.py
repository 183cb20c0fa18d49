"""Long lists of numbers from and to JSON, by the compiled library; None for texts that Python must read."""

from __future__ import annotations

import ctypes
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightbox.model_runtime.native import LIBRARY

Array = np.ndarray[Any, np.dtype[Any]]

_CELL, _MOST_DISTINCT = 16, 2048  # as numbers.c has them
_COMMA = b","[0]


class NativeNumbers:
    """The compiled reader and writer; safe to use from several threads, which run at the same time."""

    def __init__(self, library: Path = LIBRARY) -> None:
        """Raise OSError if ``library`` cannot be loaded, AttributeError if it is another."""
        loaded = ctypes.CDLL(str(library))
        number, address, size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
        self._read, self._distinct = loaded.lightbox_read_numbers, loaded.lightbox_distinct
        self._write = loaded.lightbox_write_numbers
        self._read.argtypes = [address, size, number, address, size, address, number]
        self._distinct.argtypes, self._distinct.restype = [address, size, address, address], size
        self._write.argtypes, self._write.restype = [address, address, number, *[address] * 3, size], size

    def read(self, text: memoryview, code: str, most_dimensions: int) -> Array | None:
        """Return the regular list, nested or not, that JSON ``text`` is; None for any other text.

        ``code`` is numpy's type code: ``f``, ``d``, ``q`` or ``Q``. Each number becomes the nearest float64, and a
        float32 from that. Also None if a number does not fit, or Python must read it: with 20 digits or more, or an
        exponent beyond 27.
        """
        octets = np.frombuffer(text, np.uint8)
        values = np.empty(np.count_nonzero(octets == _COMMA) + 1, code)
        shape = (ctypes.c_size_t * most_dimensions)()
        depth = self._read(
            octets.ctypes.data,
            len(octets),
            ord(code),
            ctypes.byref(ctypes.c_char.from_buffer(values.data)),  # in half of the time of ``values.ctypes``
            len(values),
            shape,
            most_dimensions,
        )
        return values.reshape(shape[:depth]) if depth else None

    def distinct(
        self, values: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint16]] | None:
        """Return the distinct values of a C-contiguous array and each one's number, None where these are many."""
        found, index = np.empty(_MOST_DISTINCT, np.float32), np.empty(values.size, np.uint16)
        count = self._distinct(values.ctypes.data, values.size, found.ctypes.data, index.ctypes.data)
        return (found[:count], index) if count else None

    def write(self, index: npt.NDArray[np.uint16], shape: tuple[int, ...], texts: list[bytes]) -> memoryview:
        """Return the JSON of an array of ``shape`` whose numbers' ``texts`` are at ``index``; none is of size 0."""
        cells, lengths = np.array(texts, f"S{_CELL}"), np.array([*map(len, texts)], np.uint8)
        sizes, rows = np.array(shape, np.uintp), prod(shape[:-1])
        out = np.empty(index.size * (_CELL + 1) + rows * 2 * len(shape) + _CELL, np.uint8)
        size = self._write(
            index.ctypes.data,
            sizes.ctypes.data,
            len(shape),
            cells.ctypes.data,
            lengths.ctypes.data,
            out.ctypes.data,
            len(out),
        )
        return out.data[:size]


@cache
def load() -> NativeNumbers | None:
    """Return the compiled reader and writer, None where the library is not compiled."""
    try:
        return NativeNumbers()
    except (OSError, AttributeError):
        return None
