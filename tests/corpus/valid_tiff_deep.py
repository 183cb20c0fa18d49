"""TIFF with grey samples of 12, 16 and 32 bits: integers with and without sign, floats."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from corpus.picture import HEIGHT, WIDTH, Case, Grid, scaled
from corpus.valid_tiff import BLACK_IS_ZERO, WHITE_IS_ZERO, Stored, case
from corpus.writers import pack_bits

UNSIGNED, SIGNED, FLOAT = 1, 2, 3
LETTERS = {(16, UNSIGNED): "H", (16, SIGNED): "h", (32, UNSIGNED): "L", (32, SIGNED): "l", (32, FLOAT): "f"}

Rows = Sequence[Sequence[float]]


def cases() -> Iterator[Case]:
    sixteen = _ramp(65_535)
    yield _deep("grey-16", 16, UNSIGNED, sixteen, 65_535)
    yield _deep("grey-16-big-endian", 16, UNSIGNED, sixteen, 65_535, ">")
    yield _deep("grey-16-signed", 16, SIGNED, _with_first(_ramp(32_767), -32_768), 32_767)
    yield _deep("grey-32-unsigned", 32, UNSIGNED, _ramp(2**32 - 1), 2**32 - 1)
    yield _deep("grey-32-signed", 32, SIGNED, _with_first(_ramp(2**31 - 1), -9), 2**31 - 1)
    yield _deep("grey-32-holds-16", 32, SIGNED, sixteen, 65_535, ">")
    yield _deep("grey-32-holds-8", 32, SIGNED, _ramp(255), 255)
    ones = [[value / 66 for value in row] for row in _ramp(66)]
    yield _deep("float-0-to-1", 32, FLOAT, ones, 1)
    yield _deep("float-0-to-255", 32, FLOAT, _ramp(255), 255, ">")
    yield _deep("float-0-to-65535", 32, FLOAT, sixteen, 65_535)
    yield _deep("float-infinite", 32, FLOAT, [[float("-inf"), *row[1:4], float("inf")] for row in ones], 1)
    twelve = _ramp(4095)
    packed = Stored(BLACK_IS_ZERO, [12], b"".join(pack_bits(row, 12) for row in twelve))
    yield case("grey-12", packed, _seen(twelve, 4095))
    data = struct.pack("<15H", *(value for row in sixteen for value in row))
    dark: Grid = [[(255 - red,) * 3 for red, _, _ in row] for row in _seen(sixteen, 65_535)]
    yield case("grey-16-inverted", Stored(WHITE_IS_ZERO, [16], data), dark)


def _ramp(top: int) -> list[list[int]]:
    """Numbers from 0 to the top in 15 steps of no particular size."""
    return [[(x * 5 + y * 23) * top // 66 for x in range(WIDTH)] for y in range(HEIGHT)]


def _with_first(rows: Rows, value: float) -> Rows:
    return [[value, *row[1:]] for row in rows]


def _deep(name: str, bits: int, kind: int, rows: Rows, top: int, order: str = "<") -> Case:
    letter = LETTERS[bits, kind]
    data = struct.pack(f"{order}15{letter}", *(value for row in rows for value in row))
    return case(name, Stored(BLACK_IS_ZERO, [bits], data, order), _seen(rows, top), {339: ("H", (kind,))})


def _seen(rows: Rows, top: int) -> Grid:
    return [[(_eight_bit(value, top),) * 3 for value in row] for row in rows]


def _eight_bit(value: float, top: int) -> int:
    inside = min(max(value, 0), top)
    return scaled(int(inside), top) if inside == int(inside) else round(inside * 255 / top)
