"""GIF, BMP, PPM, WEBP, AVIF, and odd shapes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

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
    expect,
    expect_points,
    grey,
    grid,
    samples,
    scaled,
    through,
)
from corpus.valid_jpeg import COLOURS, as_seen, blocks, centres, flat_case
from corpus.writers import bmp, exif, gif, gif_frame, pack_bits, png

PALETTE: list[Pixel] = [((i * 53 + 9) % 256, (i * 91) % 256, 255 - i) for i in range(128)]
PALETTE_BYTES = bytes(v for entry in PALETTE for v in entry)
WHITE: Pixel = (255, 255, 255)


def cases() -> Iterator[Case]:
    yield from _gifs()
    yield from _bmps()
    yield from _ppms()
    yield from _webps()
    yield from _avifs()
    yield from _shapes()


def _index(x: int, y: int) -> int:
    return (x * 31 + y * 17) % 128


def _gifs() -> Iterator[Case]:
    indices = [_index(x, y) for y in range(HEIGHT) for x in range(WIDTH)]
    whole = (0, 0, *SIZE)
    pixels = grid(lambda x, y: PALETTE[_index(x, y)])
    key = _index(2, 1)
    hidden = grid(lambda x, y: WHITE if (x, y) == (2, 1) else PALETTE[_index(x, y)])
    other = gif_frame(whole, [0] * 15)
    comment = b"\x21\xfe\x05hello\0"
    ramp = bytes(v for i in range(128) for v in (i, i, i))

    def case(name: str, body: bytes, seen: Grid) -> Case:
        return Case(f"gif-{name}.gif", body, expect("GIF", seen))

    yield case("palette", gif(SIZE, [gif_frame(whole, indices)], palette=PALETTE_BYTES), pixels)
    yield case("local-palette", gif(SIZE, [gif_frame(whole, indices, palette=PALETTE_BYTES)]), pixels)
    yield case("transparent", gif(SIZE, [gif_frame(whole, indices, key=key)], palette=PALETTE_BYTES), hidden)
    yield case("animated", gif(SIZE, [gif_frame(whole, indices), other], palette=PALETTE_BYTES), pixels)
    yield case("grey", gif(SIZE, [gif_frame(whole, indices)], palette=ramp), grid(_index))
    yield case("comment", gif(SIZE, [gif_frame(whole, indices)], palette=PALETTE_BYTES, before=comment), pixels)
    small = gif_frame((1, 1, 2, 1), [5, 6], key=127)
    inside = grid(lambda x, y: PALETTE[x + 4] if y == 1 and x in {1, 2} else WHITE)
    yield case("small-frame", gif(SIZE, [small], palette=PALETTE_BYTES), inside)
    # Bytes that a browser could also run as a script: the width is that of "/*".
    script = b"GIF89a/*" + gif((1, 3), [gif_frame((0, 0, 1, 3), [1, 2, 3])], palette=PALETTE_BYTES)[8:]
    wide = struct.unpack("<H", b"/*")[0]
    points = {(0, y): PALETTE[y + 1] for y in range(3)}
    yield Case("gif-script.gif", script + b"*/=1;alert(1)", expect_points("GIF", (wide, 3), points))


def _bmps() -> Iterator[Case]:
    def case(name: str, depth: int, rows: list[bytes], seen: Grid, size: tuple[int, int] = SIZE, **more: Any) -> Case:
        return Case(f"bmp-{name}.bmp", bmp(size, depth, rows, **more), expect("BMP", seen))

    for depth in (1, 4, 8):
        table = PALETTE[: 1 << depth]
        rows = [[(x + 2 * y) % min(len(table), 9) for x in range(WIDTH)] for y in range(HEIGHT)]
        padded = (table + [(0, 0, 0)] * 256)[: 1 << depth]
        palette = b"".join(bytes((b, g, r, 0)) for r, g, b in padded)
        seen = [[table[i] for i in row] for row in rows]
        yield case(f"palette-{depth}", depth, [pack_bits(row, depth) for row in rows], seen, palette=palette)
        if depth > 1:
            runs, compression = [_run_lengths(rows, depth)], {4: 2, 8: 1}[depth]
            yield case(f"run-lengths-{depth}", depth, runs, seen, palette=palette, compression=compression)
    bgr = [b"".join(bytes(reversed(colour(x, y))) for x in range(WIDTH)) for y in range(HEIGHT)]
    yield case("rgb-24", 24, bgr, grid(colour))
    yield case("rgb-24-downwards", 24, bgr, grid(colour), (WIDTH, -HEIGHT))
    bgrx = [b"".join(bytes((*reversed(colour(x, y)), 7)) for x in range(WIDTH)) for y in range(HEIGHT)]
    yield case("rgb-32", 32, bgrx, grid(colour))
    fives = [[(x * 7, y * 9, (x + y) * 5) for x in range(WIDTH)] for y in range(HEIGHT)]
    widened: Grid = [[(r * 255 // 31, g * 255 // 31, b * 255 // 31) for r, g, b in row] for row in fives]
    yield case(
        "rgb-15",
        16,
        [struct.pack("<5H", *(r << 10 | g << 5 | b for r, g, b in row)) for row in fives],
        widened,
    )
    sixes: Grid = [[(r * 255 // 31, g * 2 * 255 // 63, b * 255 // 31) for r, g, b in row] for row in fives]
    stored = [struct.pack("<5H", *(r << 11 | g << 6 | b for r, g, b in row)) for row in fives]
    yield case("rgb-16", 16, stored, sixes, compression=3, masks=(0xF800, 0x7E0, 0x1F))
    bgra = [b"".join(bytes((*reversed(colour(x, y)), alpha(x, y))) for x in range(WIDTH)) for y in range(HEIGHT)]
    seen_through = grid(covered)
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    yield case("rgba-32", 32, bgra, seen_through, compression=3, masks=masks)


def _run_lengths(rows: list[list[int]], depth: int) -> bytes:
    """Rows from the bottom: runs of one pixel, pixels as they are, and pixels that are skipped and so are 0."""
    data = bytearray()
    for y, row in reversed(list(enumerate(rows))):
        if y == 1:
            packed = pack_bits(row, depth)
            data += bytes((0, len(row))) + packed + bytes(len(packed) % 2)
        else:
            for pixel in row:
                data += b"\0\2\1\0" if pixel == 0 else bytes((1, pixel << (8 - depth)))
        data += b"\0\0"
    return bytes(data + b"\0\1")


def _ppms() -> Iterator[Case]:
    def case(name: str, body: bytes, seen: Grid) -> Case:
        return Case(f"ppm-{name}", body, expect("PPM", seen))

    flat = bytes(v for row in samples(colour) for v in row)
    greys = bytes(v for row in samples(grey) for v in row)
    yield case("rgb.ppm", b"P6\n5 3\n255\n" + flat, grid(colour))
    yield case("comment.ppm", b"P6 # five by three\n5\t3 # more\n255\n" + flat, grid(colour))
    yield case("grey.pgm", b"P5 5 3 255\n" + greys, grid(grey))
    deep = [v * 251 + 7 for v in greys]
    seen: Grid = [[(scaled(grey(x, y) * 251 + 7, 65535),) * 3 for x in range(WIDTH)] for y in range(HEIGHT)]
    yield case("grey-16.pgm", b"P5 5 3 65535\n" + struct.pack(">15H", *deep), seen)
    bits = [[(x + y) % 2 for x in range(WIDTH)] for y in range(HEIGHT)]
    black_is_one: Grid = [[((1 - bit) * 255,) * 3 for bit in row] for row in bits]
    yield case("bilevel.pbm", b"P4 5 3\n" + b"".join(pack_bits(row, 1) for row in bits), black_is_one)


def _saved(image: Image.Image, format_name: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def _webps() -> Iterator[Case]:
    saved = partial(_saved, format_name="WEBP")
    exact = Image.new("RGB", SIZE)
    exact.putdata([pixel for row in grid(colour) for pixel in row])
    clear = exact.convert("RGBA")
    clear.putalpha(_alpha_band())
    seen = grid(covered)
    lossless: dict[str, Any] = {"lossless": True, "exact": True}
    yield Case("webp-lossless.webp", saved(exact, **lossless), expect("WEBP", grid(colour)))
    yield Case("webp-lossless-alpha.webp", saved(clear, **lossless), expect("WEBP", seen))
    frames = [Image.new("RGB", SIZE, (7, 8, 9))]
    moving = saved(exact, save_all=True, append_images=frames, duration=50, **lossless)
    yield Case("webp-animated.webp", moving, expect("WEBP", grid(colour)))
    lossy = blocks(COLOURS)
    yield flat_case("webp-lossy.webp", saved(lossy, quality=95), format_name="WEBP", tolerance=10)
    lossy.putalpha(255)
    half = lossy.copy()
    half.putalpha(100)
    faint: Grid = [[through(pixel, 100) for pixel in row] for row in COLOURS]
    yield flat_case("webp-lossy-alpha.webp", saved(half, quality=95), faint, "WEBP", 10)
    turned = saved(blocks(COLOURS), quality=95, exif=exif(6))
    yield flat_case("webp-exif-6.webp", turned, as_seen(COLOURS, 6), "WEBP", 10)


def _avifs() -> Iterator[Case]:
    saved = partial(_saved, format_name="AVIF", quality=95, subsampling="4:4:4")
    plain, half = blocks(COLOURS), blocks(COLOURS)
    half.putalpha(100)
    faint: Grid = [[through(pixel, 100) for pixel in row] for row in COLOURS]
    still = saved(plain)
    moving = saved(plain, save_all=True, append_images=[Image.new("RGB", plain.size, (7, 8, 9))], duration=50)
    yield flat_case("avif-lossy.avif", still, format_name="AVIF", tolerance=10)
    yield flat_case("avif-brand-mif1.avif", still.replace(b"ftypavif", b"ftypmif1", 1), COLOURS, "AVIF", 10)
    yield flat_case("avif-animated.avif", moving, format_name="AVIF", tolerance=10)
    yield flat_case("avif-alpha.avif", saved(half), faint, "AVIF", 10)
    yield flat_case("avif-exif-6.avif", saved(plain, exif=exif(6)), as_seen(COLOURS, 6), "AVIF", 10)


def _alpha_band() -> Image.Image:
    band = Image.new("L", SIZE)
    band.putdata([alpha(x, y) for y in range(HEIGHT) for x in range(WIDTH)])
    return band


def _shapes() -> Iterator[Case]:
    one: Grid = [[(200, 100, 50)]]
    yield Case("shape-1x1.png", png((1, 1), 8, 2, [bytes(one[0][0])]), expect("PNG", one))
    dot = gif((1, 1), [gif_frame((0, 0, 1, 1), [9])], palette=PALETTE_BYTES)
    yield Case("shape-1x1.gif", dot, expect("GIF", [[PALETTE[9]]]))
    yield Case("shape-1x1.bmp", bmp((1, 1), 24, [bytes((50, 100, 200))]), expect("BMP", one))
    line = bytes([10]) + bytes([99]) * 29_998 + bytes([240])
    greys: dict[int, Pixel] = {0: (10, 10, 10), 15_000: (99, 99, 99), 29_999: (240, 240, 240)}
    tall = png((1, 30_000), 8, 0, (bytes([value]) for value in line), level=9)
    seen = expect_points("PNG", (1, 30_000), {(0, at): pixel for at, pixel in greys.items()})
    yield Case("shape-1x30000.png", tall, seen)
    seen = expect_points("PNG", (30_000, 1), {(at, 0): pixel for at, pixel in greys.items()})
    yield Case("shape-30000x1.png", png((30_000, 1), 8, 0, [line], level=9), seen)
    file = BytesIO()
    blocks(COLOURS).crop((0, 0, 33, 17)).save(file, "JPEG", quality=95, subsampling=0)
    inside = {at: pixel for at, pixel in centres(COLOURS).items() if at[0] < 32 and at[1] < 16}
    yield Case("shape-33x17.jpg", file.getvalue(), expect_points("JPEG", (33, 17), inside, 4))
