"""TIFF: sample formats of 8 bits and less, alpha, layouts, compressions, orientations."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from PIL import Image

from corpus.picture import (
    HEIGHT,
    SIZE,
    WIDTH,
    Case,
    Grid,
    Pixel,
    alpha,
    colour,
    covered,
    covered_grey,
    expect,
    grey,
    grid,
    over,
    printed,
    samples,
    through,
)
from corpus.valid_jpeg import COLOURS, as_seen, blocks, flat_case
from corpus.writers import Tags, pack_bits, tiff, tiff_directory

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR, LAB = 0, 1, 2, 3, 5, 6, 8
STRIP_TAGS = (273, 278, 279)
STRAIGHT_ALPHA: Tags = {338: ("H", (2,))}
PREMULTIPLIED_ALPHA: Tags = {338: ("H", (1,))}
COLOURS_256: list[Pixel] = [((i * 53) % 256, (i * 91) % 256, 255 - i) for i in range(256)]


@dataclass(frozen=True)
class Stored:
    """Samples as they lie in one strip: photometric interpretation, bits of each sample, the bytes."""

    photometric: int
    bits: Sequence[int]
    data: bytes
    order: str = "<"

    def tags(self, more: Tags | None = None) -> Tags:
        """The tags of a picture of 5 x 3 pixels in one strip, some of them replaced."""
        tags: Tags = {
            256: ("H", (WIDTH,)),
            257: ("H", (HEIGHT,)),
            258: ("H", self.bits),
            259: ("H", (1,)),
            262: ("H", (self.photometric,)),
            273: ("L", (8,)),
            277: ("H", (len(self.bits),)),
            278: ("H", (HEIGHT,)),
            279: ("L", (len(self.data),)),
        }
        return tags | (more or {})

    def file(self, more: Tags | None = None) -> bytes:
        """The picture as a file."""
        return tiff(self.tags(more), self.data, order=self.order)


def case(name: str, stored: Stored, seen: Grid, more: Tags | None = None, tolerance: int = 0) -> Case:
    return Case(f"tiff-{name}.tif", stored.file(more), expect("TIFF", seen, tolerance))


def cases() -> Iterator[Case]:
    yield from _greys()
    yield from _colours()
    yield from _alpha()
    yield from _strips_and_tiles()
    yield from _pages()
    yield from _compressions()
    for orientation in range(2, 9):
        more: Tags = {274: ("H", (orientation,))}
        yield case(f"orientation-{orientation}", _rgb(), as_seen(grid(colour), orientation), more)


def _bytes(pixel: Callable[[int, int], int | Sequence[int]]) -> bytes:
    return bytes(v for row in samples(pixel) for v in row)


def _rgb() -> Stored:
    return Stored(RGB, [8] * 3, _bytes(colour))


def _colormap(table: Sequence[Pixel]) -> Tags:
    return {320: ("H", [entry[band] * 257 for band in range(3) for entry in table])}


def _greys() -> Iterator[Case]:
    for depth in (1, 2, 4, 8):
        top = (1 << depth) - 1
        rows = [[(x + 2 * y) % (top + 1) for x in range(WIDTH)] for y in range(HEIGHT)]
        data = b"".join(pack_bits(row, depth) for row in rows)
        up: Grid = [[(v * 255 // top,) * 3 for v in row] for row in rows]
        down: Grid = [[(255 - v * 255 // top,) * 3 for v in row] for row in rows]
        yield case(f"grey-{depth}", Stored(BLACK_IS_ZERO, [depth], data), up)
        yield case(f"grey-{depth}-inverted", Stored(WHITE_IS_ZERO, [depth], data, ">"), down)


def _colours() -> Iterator[Case]:
    yield case("rgb-8", _rgb(), grid(colour))
    unused = Stored(RGB, [8] * 4, _bytes(lambda x, y: (*colour(x, y), 9)))
    yield case("rgb-8-unused-sample", unused, grid(colour), {338: ("H", (0,))})
    for order, name in (("<", "rgb-16"), (">", "rgb-16-big-endian")):
        data = struct.pack(f"{order}45H", *(v * 257 for v in _bytes(colour)))
        yield case(name, Stored(RGB, [16] * 3, data, order), grid(colour))
    index = [[(x + 2 * y) % 16 for x in range(WIDTH)] for y in range(HEIGHT)]
    packed = Stored(PALETTE, [4], b"".join(pack_bits(row, 4) for row in index))
    table = COLOURS_256[:16]
    yield case("palette-4", packed, [[table[i] for i in row] for row in index], _colormap(table))

    def inks(x: int, y: int) -> tuple[int, ...]:
        return (*colour(x, y), grey(x, y) // 2)

    yield case("cmyk", Stored(CMYK, [8] * 4, _bytes(inks)), grid(lambda x, y: printed(inks(x, y))), tolerance=1)
    colourless = Stored(YCBCR, [8] * 3, _bytes(lambda x, y: (grey(x, y), 128, 128)))
    yield case("ycbcr", colourless, grid(grey), {530: ("H", (1, 1))}, tolerance=1)
    # Corners of L*a*b* that have names: black, a middle grey, white, and sRGB's red for D50.
    lab = ((0, 0, 0), (136, 0, 0), (255, 0, 0), (138, 81, 70))
    named: tuple[Pixel, ...] = ((0, 0, 0), (126, 126, 126), (255, 255, 255), (255, 0, 0))
    corners = Stored(LAB, [8] * 3, _bytes(lambda x, y: lab[(x + y) % 4]))
    yield case("lab", corners, grid(lambda x, y: named[(x + y) % 4]), tolerance=5)


def _alpha() -> Iterator[Case]:
    def weighted(value: int, x: int, y: int) -> int:
        return over(value, alpha(x, y), 0)

    def rgba(x: int, y: int) -> list[int]:
        return [*colour(x, y), alpha(x, y)]

    def premultiplied(x: int, y: int) -> list[int]:
        return [*(weighted(v, x, y) for v in colour(x, y)), alpha(x, y)]

    seen, seen_grey = grid(covered), grid(covered_grey)
    yield case("rgba-8", Stored(RGB, [8] * 4, _bytes(rgba)), seen, STRAIGHT_ALPHA)
    deep = struct.pack("<60H", *(v * 257 for v in _bytes(rgba)))
    yield case("rgba-16", Stored(RGB, [16] * 4, deep), seen, STRAIGHT_ALPHA)
    weighed = Stored(RGB, [8] * 4, _bytes(premultiplied))
    yield case("rgba-8-premultiplied", weighed, seen, PREMULTIPLIED_ALPHA, tolerance=1)
    grey_alpha = Stored(BLACK_IS_ZERO, [8] * 2, _bytes(lambda x, y: (grey(x, y), alpha(x, y))))
    yield case("grey-alpha", grey_alpha, seen_grey, STRAIGHT_ALPHA)
    weighed = Stored(BLACK_IS_ZERO, [8] * 2, _bytes(lambda x, y: (weighted(grey(x, y), x, y), alpha(x, y))))
    yield case("grey-alpha-premultiplied", weighed, seen_grey, PREMULTIPLIED_ALPHA, tolerance=1)
    indexed = Stored(PALETTE, [8] * 2, grey_alpha.data)
    over_palette = grid(lambda x, y: through(COLOURS_256[grey(x, y)], alpha(x, y)))
    yield case("palette-alpha", indexed, over_palette, STRAIGHT_ALPHA | _colormap(COLOURS_256))


def _strips_and_tiles() -> Iterator[Case]:
    rgb, seen = _rgb(), grid(colour)
    thirds: Tags = {278: ("H", (1,)), 273: ("L", (8, 23, 38)), 279: ("L", (15, 15, 15))}
    yield case("strips", rgb, seen, thirds)
    bands = Stored(RGB, [8] * 3, b"".join(rgb.data[band::3] for band in range(3)))
    yield case("planar", bands, seen, thirds | {284: ("H", (2,)), 278: ("H", (HEIGHT,))})
    rows = [rgb.data[at : at + 15].ljust(48, b"\0") for at in (0, 15, 30)]
    tile = Stored(RGB, [8] * 3, b"".join(rows) + bytes(48 * 13))
    tags = {tag: value for tag, value in tile.tags().items() if tag not in STRIP_TAGS}
    sixteen: Tags = {322: ("H", (16,)), 323: ("H", (16,)), 324: ("L", (8,)), 325: ("L", (768,))}
    yield Case("tiff-tile.tif", tiff(tags | sixteen, tile.data), expect("TIFF", seen))
    big = tiff(rgb.tags({273: ("Q", (16,))}), rgb.data, big=True)
    yield Case("tiff-big.tif", big, expect("TIFF", seen))


def _pages() -> Iterator[Case]:
    rgb = _rgb()
    seen = expect("TIFF", grid(colour))
    first_at = 8 + len(rgb.data)
    head = b"II*\0" + struct.pack("<L", first_at) + rgb.data
    second_at = first_at + len(tiff_directory(rgb.tags(), "<", first_at))
    first = tiff_directory(rgb.tags(), "<", first_at, following=second_at)
    second = tiff_directory(rgb.tags({262: ("H", (YCBCR,))}), "<", second_at)
    yield Case("tiff-two-pages.tif", head + first + second, seen)
    loop = tiff_directory(rgb.tags(), "<", first_at, following=first_at)
    yield Case("tiff-page-loop.tif", head + loop, seen)


def _compressions() -> Iterator[Case]:
    image = Image.new("RGB", SIZE)
    image.putdata([pixel for row in grid(colour) for pixel in row])
    for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd", "lzma"):
        yield Case(f"tiff-{name.removeprefix('tiff_')}.tif", _saved(image, name), expect("TIFF", grid(colour)))
    bilevel = Image.new("1", (16, 2))
    bilevel.putdata([255 * (x % 3 == 0) for x in range(32)])
    black_white: Grid = [[(255 * ((x + 16 * y) % 3 == 0),) * 3 for x in range(16)] for y in range(2)]
    for name in ("group3", "group4"):
        yield Case(f"tiff-{name}.tif", _saved(bilevel, name), expect("TIFF", black_white))
    lossy = _saved(blocks(COLOURS), "jpeg")
    yield flat_case("tiff-jpeg.tif", lossy, format_name="TIFF", tolerance=12)


def _saved(image: Image.Image, compression: str) -> bytes:
    file = BytesIO()
    image.save(file, "TIFF", compression=compression)
    return file.getvalue()
