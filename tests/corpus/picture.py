"""The picture that most valid files hold, and the arithmetic that says what must come out.

Everything here is plain integer arithmetic on what was put into a file; no decoder and none of the code under
test is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Pixel = tuple[int, int, int]
Grid = list[list[Pixel]]

WIDTH, HEIGHT = 5, 3
SIZE = (WIDTH, HEIGHT)


@dataclass(frozen=True)
class Case:
    """One file of the corpus: its name, its bytes, and what must come of it."""

    name: str
    body: bytes
    expect: dict[str, object] = field(default_factory=dict)


def colour(x: int, y: int) -> Pixel:
    return x * 50 + 5, y * 80 + 15, (x * 37 + y * 101) % 256


def grey(x: int, y: int) -> int:
    return (x * 61 + y * 97) % 256


def alpha(x: int, y: int) -> int:
    return (0, 1, 100, 254, 255)[(x + y) % 5]


def over(value: int, opacity: int, background: int = 255) -> int:
    """Round to nearest what shows when ``value`` covers the background by opacity / 255."""
    return (2 * (value * opacity + background * (255 - opacity)) + 255) // 510


def scaled(value: int, top: int) -> int:
    """Round value * 255 / top to nearest."""
    return (2 * value * 255 + top) // (2 * top)


def through(pixel: Pixel, opacity: int) -> Pixel:
    """What shows of a pixel of that opacity on white."""
    red, green, blue = (over(value, opacity) for value in pixel)
    return red, green, blue


def covered(x: int, y: int) -> Pixel:
    """The colour with the picture's alpha, on white."""
    return through(colour(x, y), alpha(x, y))


def covered_grey(x: int, y: int) -> int:
    """The grey with the picture's alpha, on white."""
    return over(grey(x, y), alpha(x, y))


def printed(inks: Sequence[int]) -> Pixel:
    """Cyan, magenta, yellow and black ink on white paper."""
    red, green, blue = (round((255 - ink) * (255 - inks[3]) / 255) for ink in inks[:3])
    return red, green, blue


def grid(pixel: Callable[[int, int], int | Pixel]) -> Grid:
    """The picture as rows of RGB; a single number is a grey."""
    values = [[pixel(x, y) for x in range(WIDTH)] for y in range(HEIGHT)]
    return [[v if isinstance(v, tuple) else (v, v, v) for v in row] for row in values]


def samples(pixel: Callable[[int, int], int | Sequence[int]]) -> list[list[int]]:
    """The picture as rows of samples, one or more a pixel, as files store them."""

    def flat(value: int | Sequence[int]) -> Sequence[int]:
        return (value,) if isinstance(value, int) else value

    return [[s for x in range(WIDTH) for s in flat(pixel(x, y))] for y in range(HEIGHT)]


def expect(format_name: str, pixels: Grid, tolerance: int = 0) -> dict[str, object]:
    """The expectation for a small image: every pixel, as hexadecimal RGB."""
    rows = [" ".join(bytes(pixel).hex() for pixel in row) for row in pixels]
    size = [len(pixels[0]), len(pixels)]
    return {"format": format_name, "size": size, "tolerance": tolerance, "pixels": rows}


def expect_points(
    format_name: str, size: tuple[int, int], points: dict[tuple[int, int], Pixel], tolerance: int = 0
) -> dict[str, object]:
    """The expectation for a larger image: chosen pixels, keyed "x,y"."""
    named = {f"{x},{y}": bytes(pixel).hex() for (x, y), pixel in points.items()}
    return {"format": format_name, "size": list(size), "tolerance": tolerance, "points": named}
