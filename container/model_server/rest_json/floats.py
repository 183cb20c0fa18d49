"""float32 values -> their decimal texts, many at once: the digits come from arithmetic on whole arrays.

A value's text is "%.6g" if that gives the value back, else "%.9g", with ".0" for whole numbers. It is put
together in a cell of 24 bytes whose unused bytes are NUL, and all NULs are taken out at the end:

    mark, sign and what comes before the first digit (8 bytes), three groups of three digits with room
    for the point (4 bytes each), the exponent (4 bytes)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfs_wire.rest.writer import decimals

Array = np.ndarray[Any, np.dtype[Any]]
Indices = npt.NDArray[np.intp]
Bytes = npt.NDArray[np.uint8]

CHUNK = 1 << 14
"""So many values and what is computed from them fit in a processor's cache."""

_CELL = 24
_NOT_FINITE = 0xFF
_LEAST, _MOST = -38, 39
"""Decimal exponents of normal float32 values, and one more to round up to."""

_MARGIN = 1e-5
"""The ninth digit is doubtful if what follows is so near to one half; the arithmetic errs by less than 1e-6."""

_ERROR = 1e-15
"""Six digits times a power of ten err by less, relatively."""


# -------------------------------------------------------------------- tables


class _Variant(NamedTuple):
    """How three digits are written: where the point goes, and how many digits stay though they are zeros."""

    point: int | None
    kept: int


_PLAIN, _STRIPPED, _KEEP_ONE = _Variant(None, 3), _Variant(None, 0), _Variant(None, 1)
_VARIANTS = [
    *(_PLAIN, _STRIPPED, _KEEP_ONE),
    *(_Variant(point, 3) for point in (1, 2, 3)),
    *(_Variant(1, 2), _Variant(1, 1)),
]


def _group(number: int, variant: _Variant) -> bytes:
    digits = f"{number:03}"
    digits = digits[: variant.kept] + digits[variant.kept :].rstrip("0")
    if variant.point is not None and (len(digits) > variant.point or variant.kept == 3):
        digits = digits[: variant.point] + "." + digits[variant.point :]
    return digits.encode()


_GROUPS = np.array([_group(number, variant) for variant in _VARIANTS for number in range(1000)], "S4").view(np.uint32)


class _Layout(NamedTuple):
    """How a number of some decimal exponent is written; the groups as (more follow, only zeros follow)."""

    before: bytes
    groups: list[tuple[_Variant, _Variant]]
    after: bytes


def _layout(exponent: int, precision: int) -> _Layout:
    """Follow C's "%.{precision}g"."""
    if not -4 <= exponent < precision:
        first = (_Variant(1, 3), _Variant(1, 1))
        return _Layout(b"", [first, (_PLAIN, _STRIPPED), (_STRIPPED, _STRIPPED)], b"e%+03d" % exponent)
    if exponent < 0:
        return _Layout(b"0." + b"0" * (-1 - exponent), [(_PLAIN, _STRIPPED)] * 3, b"")
    groups = [_fixed_group(exponent + 1 - 3 * index) for index in range(3)]
    return _Layout(b"", groups, b"0" if exponent == 8 else b"")


def _fixed_group(whole: int) -> tuple[_Variant, _Variant]:
    """Return how a group is written that begins so many digits before the point."""
    if whole < 0:
        return _PLAIN, _STRIPPED
    if whole == 0:
        return _PLAIN, _KEEP_ONE
    if whole == 1:
        return _Variant(1, 3), _Variant(1, 2)
    if whole <= 3:
        return _Variant(whole, 3), _Variant(whole, 3)
    return _PLAIN, _PLAIN


_LAYOUTS = [_layout(exponent, precision) for exponent in range(_LEAST, _MOST + 1) for precision in (9, 6)]

_CODES = {variant: 1000 * index for index, variant in enumerate(_VARIANTS)}
# Indexed by 2 * layout + whether only zeros follow the group.
_FIRST, _SECOND = (
    np.array([_CODES[variant] for layout in _LAYOUTS for variant in layout.groups[index]]) for index in (0, 1)
)
_THIRD = np.array([_CODES[layout.groups[2][1]] for layout in _LAYOUTS])
# Indexed by 2 * layout + whether there is a minus sign.
_BEFORE = np.array([b"\0" + sign + layout.before for layout in _LAYOUTS for sign in (b"", b"-")], "S8").view(np.uint64)
_AFTER = np.array([layout.after for layout in _LAYOUTS], "S4").view(np.uint32)

# Indexed by a float32's own exponent: the decimal exponent of the least value that has it, and the power of
# ten where the next one begins.
_EXPONENT = np.array([0] + [math.floor(math.log10(2.0) * (biased - 127)) for biased in range(1, 255)] + [0])
_NEXT = np.array([1.0] + [float(f"1e{exponent + 1}") for exponent in _EXPONENT[1:255]] + [1.0])
# Indexed by the decimal exponent: what makes nine digits whole, and what six whole digits are multiplied by.
_SCALE = np.array([float(f"1e{8 - exponent}") for exponent in range(_LEAST, _MOST + 1)])
_BACK = np.array([float(f"1e{exponent - 5}") for exponent in range(_LEAST, _MOST + 1)])


# ------------------------------------------------------------------ arithmetic


def texts(values: Array, marks: Bytes) -> bytes:
    """Return the texts of a flat float32 array, each with its mark (one byte, not NUL) before it.

    Best called with ``CHUNK`` values or fewer.
    """
    bits = values.view(np.uint32)
    biased = ((bits >> 23) & 0xFF).astype(np.intp)
    odd = biased == _NOT_FINITE
    plain = np.where((biased == 0) | odd, 0, np.abs(values))
    short, digits, exponents, doubtful = _digits(plain, biased)
    cells = _cells(digits, 2 * exponents + short, bits >> 31)
    cells.view(np.uint8).reshape(-1, _CELL)[:, 0] = marks
    odd |= doubtful
    if odd.any():
        _write_anew(cells, values, marks, np.flatnonzero(odd))
    return cells.tobytes().translate(None, b"\0")


def _digits(plain: Array, biased: Indices) -> tuple[Array, Array, Indices, Array]:
    """Return whether six digits are enough, nine digits, the index of the decimal exponent, and what is doubtful."""
    numbers = plain.astype(np.float64)
    exponents = _EXPONENT.take(biased) + (numbers >= _NEXT.take(biased)) - _LEAST
    scaled = numbers * _SCALE.take(exponents)
    nine = np.rint(scaled)
    doubtful = np.abs(scaled - nine) > 0.5 - _MARGIN
    six = np.rint(scaled * 1e-3)
    again = six * _BACK.take(exponents)
    low, high = (again * (1 - _ERROR)).astype(np.float32), (again * (1 + _ERROR)).astype(np.float32)
    doubtful |= low != high
    short = low == plain
    np.multiply(six, 1000, out=nine, where=short)
    over = nine >= 1e9
    if over.any():
        exponents += over
        nine[over] = 1e8
    return short, nine.astype(np.int32).view(np.uint32), exponents, doubtful


def _cells(digits: Array, layouts: Indices, negative: Array) -> npt.NDArray[np.uint32]:
    upper = digits // 1000
    third = digits - upper * 1000
    first = upper // 1000
    second = upper - first * 1000
    twice = 2 * layouts
    cells = np.empty((len(digits), _CELL // 4), np.uint32)
    cells.view(np.uint64)[:, 0] = _BEFORE.take(twice + negative)
    rest_is_zero = third == 0
    cells[:, 4] = _GROUPS.take(_THIRD.take(layouts) + third)
    cells[:, 3] = _GROUPS.take(_SECOND.take(twice + rest_is_zero) + second)
    rest_is_zero &= second == 0
    cells[:, 2] = _GROUPS.take(_FIRST.take(twice + rest_is_zero) + first)
    cells[:, 5] = _AFTER.take(layouts)
    return cells


def _write_anew(cells: npt.NDArray[np.uint32], values: Array, marks: Bytes, where: Indices) -> None:
    """Write some values one by one: NaN, infinities, and where the digits could not be told."""
    found = zip(marks[where].tolist(), decimals(values[where]), strict=True)
    cells.view(f"S{_CELL}")[where, 0] = [bytes([mark]) + text.encode() for mark, text in found]
