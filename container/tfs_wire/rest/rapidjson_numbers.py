"""RapidJSON's quick arithmetic for decimal numbers, which may miss the nearest double by a few units."""

from __future__ import annotations

import math
import re

LARGEST_EXPONENT = 308
UINT64 = 1 << 64

MAX_LONG_NUMBERS_BYTES = 1 << 20
"""Up to here numbers of many digits are read by RapidJSON's arithmetic, which may miss the nearest double;
in longer bodies they are rounded correctly, which is quicker."""

_LONG_NUMBER = re.compile(rb"[0-9.]{17}|[0-9][eE]")
_INT64 = 1 << 63
_KEPT_DIGITS = 17


def has_long_numbers(body: bytes | bytearray) -> bool:
    """Return whether RapidJSON may read a number of this body as another double than the nearest one."""
    return len(body) <= MAX_LONG_NUMBERS_BYTES and _LONG_NUMBER.search(body) is not None


def significand(mantissa: bytes) -> tuple[float, int]:
    """Return the digits as a float and the power of ten that they lack.

    Like RapidJSON without its full-precision flag: exact while the digits fit 53 bits, then digit by
    digit in floating point, and fraction digits past the 17th are dropped.
    """
    negative = mantissa.startswith(b"-")
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    number, power, digits = int(whole), 0, len(whole) - 1
    if number >= UINT64 - (negative * _INT64):
        value = float(number)
        used = 0
    else:
        used = 0
        while used < len(fraction) and number < 1 << 53:
            number = number * 10 + fraction[used] - 48
            used, digits = used + 1, digits + (number != 0)
        value, power = float(number), -used
    for digit in fraction[used:]:
        if digits >= _KEPT_DIGITS:
            break
        value, power = value * 10 + digit - 48, power - 1
        digits += value > 0
    return (-value if negative else value), power


def scaled(value: float, decimals: int, power: int) -> float:
    """Return ``value`` times ten to the power of ``decimals + power`` with one rounding, or two when tiny."""
    exponent = decimals + power
    if exponent < -LARGEST_EXPONENT:
        value /= 10.0**LARGEST_EXPONENT
        exponent += LARGEST_EXPONENT
        if exponent < -LARGEST_EXPONENT:
            return value * 0.0
    try:
        return value * 10.0**exponent if exponent >= 0 else value / 10.0**-exponent
    except OverflowError:
        return math.copysign(math.inf, value) if value else 0.0
