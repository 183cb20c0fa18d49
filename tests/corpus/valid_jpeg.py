"""JPEG: flat blocks, which compression hardly changes; orientations, broken EXIF, containers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO

from PIL import Image

from corpus.picture import Case, Grid, Pixel, expect_points, printed
from corpus.writers import exif, jpeg_segment, png, riff_webp, with_segments

BLOCK = 16
COLOURS: Grid = [
    [(220, 30, 40), (30, 200, 60), (40, 60, 210)],
    [(240, 220, 30), (20, 20, 20), (230, 230, 240)],
]
TOLERANCE = 4


def cases() -> Iterator[Case]:
    yield from _plain()
    for orientation in range(1, 9):
        yield _oriented(f"exif-{orientation}", exif(orientation), orientation)
    yield _oriented("exif-6-little-endian", exif(6, "<"), 6)
    yield _oriented("exif-8-as-long", exif(8, ">", "L"), 8)
    yield from _broken_exif()
    yield from _containers()


def blocks(colours: Grid, mode: str = "RGB") -> Image.Image:
    """The colours as blocks of 16 x 16 pixels."""
    image = Image.new("RGB", (len(colours[0]), len(colours)))
    image.putdata([pixel for row in colours for pixel in row])
    large = image.resize((image.width * BLOCK, image.height * BLOCK), Image.Resampling.NEAREST)
    return large.convert(mode)


def jpeg(colours: Grid = COLOURS, **options: object) -> bytes:
    file = BytesIO()
    blocks(colours).save(file, "JPEG", **({"quality": 95, "subsampling": 0} | options))
    return file.getvalue()


def centres(colours: Grid) -> dict[tuple[int, int], Pixel]:
    """The middle of each block."""
    half = BLOCK // 2
    return {(x * BLOCK + half, y * BLOCK + half): pixel for y, row in enumerate(colours) for x, pixel in enumerate(row)}


def flat_case(
    name: str, body: bytes, colours: Grid = COLOURS, format_name: str = "JPEG", tolerance: int = TOLERANCE
) -> Case:
    size = (len(colours[0]) * BLOCK, len(colours) * BLOCK)
    return Case(name, body, expect_points(format_name, size, centres(colours), tolerance))


def as_seen(colours: Grid, orientation: int) -> Grid:
    """What a viewer sees, by EXIF's words on where the stored row 0 and column 0 lie."""
    rows, columns = len(colours), len(colours[0])
    if orientation >= 5:
        rows, columns = columns, rows

    def stored(x: int, y: int) -> Pixel:
        right, bottom = columns - 1 - x, rows - 1 - y
        column, row = {
            1: (x, y), 2: (right, y), 3: (right, bottom), 4: (x, bottom),
            5: (y, x), 6: (y, right), 7: (bottom, right), 8: (bottom, x),
        }[orientation]  # fmt: skip
        return colours[row][column]

    return [[stored(x, y) for x in range(columns)] for y in range(rows)]


def _plain() -> Iterator[Case]:
    greys: Grid = [[(v, v, v) for v in row] for row in ((0, 77, 255), (128, 200, 13))]
    file = BytesIO()
    blocks(greys, "L").save(file, "JPEG", quality=95)
    yield flat_case("jpeg-grey.jpg", file.getvalue(), greys)
    yield flat_case("jpeg-444.jpg", jpeg())
    yield flat_case("jpeg-422.jpg", jpeg(subsampling=1))
    yield flat_case("jpeg-420.jpg", jpeg(subsampling=2))
    yield flat_case("jpeg-progressive.jpg", jpeg(progressive=True))
    yield flat_case("jpeg-restart-markers.jpg", jpeg(restart_marker_blocks=2))
    yield flat_case("jpeg-rgb-not-ycc.jpg", jpeg(keep_rgb=True))
    yield _cmyk()


def _cmyk() -> Case:
    inks = [(255, 0, 0, 0), (0, 255, 0, 0), (0, 0, 255, 0), (0, 0, 0, 255), (0, 0, 0, 0), (100, 50, 0, 60)]
    seen = [printed(ink) for ink in inks]
    image = Image.new("CMYK", (3, 2))
    image.putdata(inks)
    file = BytesIO()
    # Written as Adobe does, inverted and marked so.
    image.resize((48, 32), Image.Resampling.NEAREST).save(file, "JPEG", quality=95)
    return flat_case("jpeg-cmyk.jpg", file.getvalue(), [seen[:3], seen[3:]], tolerance=6)


def _oriented(name: str, block: bytes, orientation: int) -> Case:
    body = with_segments(jpeg(), jpeg_segment(0xE1, block))
    return flat_case(f"jpeg-{name}.jpg", body, as_seen(COLOURS, orientation))


def _broken_exif() -> Iterator[Case]:
    whole = exif(6)
    broken = {
        "empty": b"Exif\0\0",
        "garbage": b"Exif\0\0" + bytes(range(200)),
        "cut-in-header": whole[:12],
        "cut-in-tag": whole[:20],
        "offset-outside": b"Exif\0\0MM\0*\xff\xff\xff\xf0",
        "offset-to-itself": b"Exif\0\0MM\0*\0\0\0\0",
        "value-0": exif(0),
        "value-9": exif(9),
        "as-fraction": b"Exif\0\0MM\0*\0\0\0\x08\0\1"
        + struct.pack(">HHLLL", 0x0112, 5, 1, 26, 0)
        + b"\0\0\0\6\0\0\0\1",
        "a-million-values": b"Exif\0\0MM\0*\0\0\0\x08\0\1" + struct.pack(">HHLLL", 0x0112, 3, 1_000_000, 8, 0),
    }
    for name, block in broken.items():
        yield _oriented(f"exif-broken-{name}", block, 1)


def _containers() -> Iterator[Case]:
    body = jpeg()
    yield flat_case("jpeg-named-png.png", body)
    yield flat_case("jpeg-and-zip.jpg", body + b"PK\3\4" + bytes(30) + b"PK\5\6" + bytes(18))
    yield flat_case("jpeg-html-comment.jpg", with_segments(body, jpeg_segment(0xFE, b"<script>alert(1)</script>")))
    yield flat_case("jpeg-two-pictures.jpg", _multi_picture(body))
    profile = jpeg_segment(0xE2, b"ICC_PROFILE\0\x01\x01" + b"no profile" * 100)
    yield flat_case("jpeg-broken-profile.jpg", with_segments(body, profile))
    yield flat_case("jpeg-fill-bytes.jpg", with_segments(body, b"\xff" * 40))


def _multi_picture(first: bytes) -> bytes:
    """An MPO, as phones write it: a second JPEG behind the first, and an index of both."""
    index = struct.pack(">H", 2) + struct.pack(">HHLL", 0xB001, 4, 1, 2) + struct.pack(">HHLL", 0xB002, 7, 32, 38)
    entries = struct.pack(">LLLHH", 0x030000, len(first), 0, 0, 0) + struct.pack(">LLLHH", 0, 10, 10, 0, 0)
    block = b"MPF\0MM\0*\0\0\0\x08" + index + bytes(4) + entries
    return with_segments(first, jpeg_segment(0xE2, block)) + jpeg([[(1, 2, 3)]])


def polyglots() -> dict[str, bytes]:
    """Files of two kinds at once of which none may be taken for an image: the magic bytes stand elsewhere."""
    return {
        "pdf-with-jpeg.jpg": b"%PDF-1.7\n1 0 obj <</Filter /DCTDecode>> stream\n" + jpeg() + b"\nendstream",
        "zip-with-png.png": b"PK\3\4" + bytes(26) + png((1, 1), 8, 0, [b"\0"]),
        "mail-with-webp.webp": b"Content-Type: image/webp\r\n\r\n" + riff_webp((b"VP8 ", bytes(30))),
        "shifted-jpeg.jpg": b"\n" + jpeg(),
    }
