"""PNG: every colour type and depth, transparent colours, interlacing, metadata, animation."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

from corpus import picture, writers
from corpus.picture import (
    SIZE,
    Case,
    Grid,
    alpha,
    colour,
    covered,
    covered_grey,
    expect,
    grey,
    grid,
    over,
    samples,
    scaled,
)
from corpus.writers import Chunk, pack_bits, png

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
BACKGROUND = (255, 255, 255)


def _case(name: str, depth: int, colour_type: int, stored: list[list[int]], pixels: Grid, *chunks: Chunk) -> Case:
    rows = [pack_bits(row, depth) for row in stored]
    return Case(f"png-{name}.png", png(SIZE, depth, colour_type, rows, before=chunks), expect("PNG", pixels))


def cases() -> Iterator[Case]:
    yield from _greys()
    yield from _colours()
    yield from _palettes()
    yield from _transparent_colours()
    yield from _containers()


def _greys() -> Iterator[Case]:
    for depth in (1, 2, 4, 8):
        top = (1 << depth) - 1
        level = _level(top)
        yield _case(f"grey-{depth}", depth, GREY, samples(level), grid(lambda x, y: level(x, y) * 255 // top))  # noqa: B023
    yield _case("grey-16", 16, GREY, samples(_sixteen), grid(lambda x, y: scaled(_sixteen(x, y), 65535)))
    yield _case("grey-16-white", 16, GREY, samples(lambda x, y: 65535), grid(lambda x, y: 255))
    yield _case(
        "grey-alpha-8", 8, GREY_ALPHA,
        samples(lambda x, y: (grey(x, y), alpha(x, y))),
        grid(covered_grey),
    )  # fmt: skip
    yield _case(
        "grey-alpha-16", 16, GREY_ALPHA,
        samples(lambda x, y: (grey(x, y) * 257, alpha(x, y) * 257)),
        grid(covered_grey),
    )  # fmt: skip


def _level(top: int) -> Callable[[int, int], int]:
    return lambda x, y: (x + 2 * y) % (top + 1)


def _sixteen(x: int, y: int) -> int:
    return (x * 13_007 + y * 21_011 + 385) % 65_536


def _colours() -> Iterator[Case]:
    translucent = grid(covered)
    yield _case("rgb-8", 8, RGB, samples(colour), grid(colour))
    yield _case("rgb-16", 16, RGB, samples(lambda x, y: [v * 257 for v in colour(x, y)]), grid(colour))
    yield _case("rgba-8", 8, RGBA, samples(lambda x, y: (*colour(x, y), alpha(x, y))), translucent)
    yield _case(
        "rgba-16",
        16,
        RGBA,
        samples(lambda x, y: [v * 257 for v in (*colour(x, y), alpha(x, y))]),
        translucent,
    )


def _palette(entries: int) -> list[picture.Pixel]:
    return [((i * 53 + 9) % 256, (i * 91) % 256, 255 - i) for i in range(entries)]


def _palettes() -> Iterator[Case]:
    for depth in (1, 2, 4, 8):
        entries = 1 << depth
        table = _palette(entries)
        index = _level(min(entries, 16) - 1)
        chunk = (b"PLTE", bytes(v for entry in table for v in entry))
        pixels = grid(lambda x, y: table[index(x, y)])  # noqa: B023
        yield _case(f"palette-{depth}", depth, PALETTE, samples(index), pixels, chunk)
    yield _palette_with_alpha("palette-one-transparent", [255, 255, 0, 255])
    yield _palette_with_alpha("palette-alpha", [0, 1, 100, 254, 255, 77])


def _palette_with_alpha(name: str, alphas: Sequence[int]) -> Case:
    table, index = _palette(8), _level(7)
    opacity = [*alphas, *[255] * (8 - len(alphas))]
    seen = [(over(r, a), over(g, a), over(b, a)) for (r, g, b), a in zip(table, opacity, strict=True)]
    pixels = [[seen[i] for i in row] for row in samples(index)]
    chunks = (b"PLTE", bytes(v for entry in table for v in entry)), (b"tRNS", bytes(alphas))
    return _case(name, 8, PALETTE, samples(index), pixels, *chunks)


def _transparent_colours() -> Iterator[Case]:
    for depth in (1, 2, 4, 8):
        top = (1 << depth) - 1
        level = _level(top)
        key = level(1, 1)
        pixels = grid(lambda x, y: 255 if level(x, y) == key else level(x, y) * 255 // top)  # noqa: B023
        yield _case(f"grey-{depth}-key", depth, GREY, samples(level), pixels, (b"tRNS", struct.pack(">H", key)))
    sixteen_key = _sixteen(2, 1)
    yield _case(
        "grey-16-key", 16, GREY, samples(_sixteen),
        grid(lambda x, y: 255 if (x, y) == (2, 1) else scaled(_sixteen(x, y), 65535)),
        (b"tRNS", struct.pack(">H", sixteen_key)),
    )  # fmt: skip
    hidden = grid(lambda x, y: BACKGROUND if (x, y) == (3, 2) else colour(x, y))
    yield _case("rgb-8-key", 8, RGB, samples(colour), hidden, (b"tRNS", struct.pack(">3H", *colour(3, 2))))
    yield _case(
        "rgb-16-key", 16, RGB, samples(lambda x, y: [v * 257 for v in colour(x, y)]), hidden,
        (b"tRNS", struct.pack(">3H", *(v * 257 for v in colour(3, 2)))),
    )  # fmt: skip


def _containers() -> Iterator[Case]:
    rows = [bytes(row) for row in samples(colour)]
    pixels = grid(colour)
    passes = [
        [bytes(v for x in range(x0, 5, dx) for v in colour(x, y)) for y in range(y0, 3, dy)]
        for x0, y0, dx, dy in writers.ADAM7
        if x0 < picture.WIDTH and y0 < picture.HEIGHT
    ]
    interlaced = [row for one in passes for row in one]
    text = (b"tEXt", b"Comment\0" + b"</script>" * 20)
    profile = (b"iCCP", b"broken\0\0" + zlib.compress(b"no profile", 0))
    bodies = {
        "interlaced": png(SIZE, 8, RGB, interlaced, interlace=1),
        "many-parts": png(SIZE, 8, RGB, rows, parts=9),
        "metadata": png(SIZE, 8, RGB, rows, before=[text, profile, (b"prVt", b"\0" * 50)], after=[text]),
        "trailing-bytes": png(SIZE, 8, RGB, rows) + b"PK\3\4 and so on",
        "named-jpeg": png(SIZE, 8, RGB, rows),
        "animated": _animated(rows),
    }
    for name, body in bodies.items():
        suffix = "jpg" if name == "named-jpeg" else "png"
        yield Case(f"png-{name}.{suffix}", body, expect("PNG", pixels))
    turned = [[pixels[y][x] for y in reversed(range(3))] for x in range(5)]
    exif = [(b"eXIf", writers.exif(6)[6:])]
    yield Case("png-exif-6-before.png", png(SIZE, 8, RGB, rows, before=exif), expect("PNG", turned))
    yield Case("png-exif-6-after.png", png(SIZE, 8, RGB, rows, after=exif), expect("PNG", turned))


def _animated(rows: list[bytes]) -> bytes:
    control = [(b"acTL", struct.pack(">LL", 2, 0)), (b"fcTL", _frame_control(0))]
    second = zlib.compress(b"".join(b"\0" + bytes(len(row)) for row in rows), 0)
    later = [(b"fcTL", _frame_control(1)), (b"fdAT", struct.pack(">L", 2) + second)]
    return png(SIZE, 8, RGB, rows, before=control, after=later)


def _frame_control(number: int) -> bytes:
    return struct.pack(">LLLLLHHBB", number, *SIZE, 0, 0, 1, 10, 0, 0)
