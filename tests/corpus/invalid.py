"""Bodies that must be refused: no images, images cut off or broken, formats that are not accepted."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO

from corpus import valid_jpeg
from corpus.picture import SIZE, Case, colour, samples
from corpus.valid_tiff import BLACK_IS_ZERO, RGB, Stored
from corpus.valid_tiff_deep import FLOAT
from corpus.writers import PNG_SIGNATURE, Tags, bmp, gif, gif_frame, png, png_chunk, riff_webp, tiff

UNDECODABLE = {"code": "image_undecodable", "status": 400}
TOO_LARGE = {"code": "too_large", "status": 413}

TRUNCATIONS = (1, 4, 10, 20, 30, 45, 60, 75, 90, 97)
"""Per cent of a file that arrives."""


def cases() -> Iterator[Case]:
    for name, body in _bodies():
        yield Case(name, body, UNDECODABLE)
    for name, body in _oversized():
        yield Case(name, body, TOO_LARGE)


def _bodies() -> Iterator[tuple[str, bytes]]:
    yield from _no_images().items()
    yield from _other_formats().items()
    yield from valid_jpeg.polyglots().items()
    yield from _truncated()
    yield from _broken_png().items()
    yield from _broken_jpeg().items()
    yield from _broken_others().items()


def _no_images() -> dict[str, bytes]:
    return {
        "empty.jpg": b"",
        "zero-bytes.png": bytes(1000),
        "text.jpg": b"BM, GIF and PNG are names of formats, as the first letters of this text are.\n",
        "table.csv": b"BMW,1.5,2\nGIF,3,4\n",
        "json-object.txt": b'{"instances": [[1.0, 2.0]]}',
        "page.html": b"<!DOCTYPE html><html><img src='a.png'></html>",
        "numbers.npy": b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + bytes(60),
        "magic-jpeg.jpg": b"\xff\xd8\xff",
        "magic-png.png": PNG_SIGNATURE,
        "magic-gif.gif": b"GIF89a",
        "magic-tiff.tif": b"II*\0",
        "magic-webp.webp": b"RIFF\x10\0\0\0WEBPVP8 ",
        "magic-ppm.ppm": b"P6\n",
        "magic-bmp.bmp": b"BM" + bytes(12) + b"\x28\0\0\0",
    }


def _other_formats() -> dict[str, bytes]:
    """Formats that Pillow can read and that are refused, some because reading them runs programs."""
    return {
        "drawing.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        "drawing.svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>",
        "document.pdf": b"%PDF-1.7\n%%EOF\n",
        "icon.ico": b"\0\0\1\0\1\0\x01\x01\0\0\1\0\x20\0\x30\0\0\0\x16\0\0\0" + bytes(48),
        "photo.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
        "photo.avif": b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(40),
        "photo.jp2": b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 ",
        "layers.psd": b"8BPS\0\1" + bytes(6) + struct.pack(">HLLHH", 3, 1, 1, 8, 3) + bytes(20),
        "plain.ppm": b"P3\n1 1\n255\n1 2 3\n",
        "floats.pfm": b"Pf\n1 1\n-1.0\n" + struct.pack("<f", 0.5),
        "ppm-100-levels.ppm": b"P6 1 1 100\n" + bytes((1, 2, 3)),
        "ppm-16-bit-colour.ppm": b"P6 1 1 65535\n" + bytes(6),
        "run-lengths-end.bmp": bmp((4, 1), 8, [b"\2\1\0\1"], palette=bytes(1024), compression=1),
        "big-endian-big.tif": b"MM\0\x2b\0\x08\0\0" + struct.pack(">Q", 16) + bytes(30),
    }


def _truncated() -> Iterator[tuple[str, bytes]]:
    rows = [bytes((x * y + x) % 256 for x in range(90)) for y in range(30)]
    files = {"png": png((30, 30), 8, 2, rows), "jpg": valid_jpeg.jpeg()}
    for suffix, body in files.items():
        for part in TRUNCATIONS:
            yield f"cut-at-{part:02}.{suffix}", body[: len(body) * part // 100]
    for part in (20, 60, 90):
        for suffix, body in _files_to_cut().items():
            yield f"cut-at-{part:02}.{suffix}", body[: len(body) * part // 100]


def _files_to_cut() -> dict[str, bytes]:
    flat = bytes(v for row in samples(colour) for v in row)
    webp = BytesIO()
    valid_jpeg.blocks(valid_jpeg.COLOURS).save(webp, "WEBP", lossless=True)
    data = flat * 4
    return {
        "gif": gif((20, 20), [gif_frame((0, 0, 20, 20), [x % 120 for x in range(400)])], palette=bytes(384)),
        "bmp": bmp(SIZE, 24, [flat[:15], flat[15:30], flat[30:]]),
        "ppm": b"P6 5 3 255\n" + flat,
        "webp": webp.getvalue(),
        # The directory first, so that the cut meets the pixels.
        "tif": _tiff_with_data_behind(data),
    }


def _tiff_with_data_behind(data: bytes) -> bytes:
    stored = Stored(RGB, [8] * 3, data)
    tags: Tags = {257: ("H", (12,)), 278: ("H", (12,))}
    behind = len(tiff(stored.tags(tags), b""))
    return tiff(stored.tags(tags | {273: ("L", (behind,))}), b"") + data


def _broken_png() -> dict[str, bytes]:
    rows = [bytes(row) for row in samples(colour)]
    good = png(SIZE, 8, 2, rows)
    middle = good.index(b"IDAT") + 20
    pixel = zlib.compress(b"\0\1\2\3", 0)

    def built(*chunks: tuple[bytes, bytes]) -> bytes:
        return PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))

    def header(width: int, height: int, depth: int, kind: int, rest: bytes = b"\0\0\0") -> tuple[bytes, bytes]:
        return b"IHDR", struct.pack(">LLBB", width, height, depth, kind) + rest

    return {
        "png-no-width.png": built(header(0, 1, 8, 2), (b"IDAT", pixel)),
        "png-depth-3.png": built(header(1, 1, 3, 0), (b"IDAT", pixel)),
        "png-colour-type-5.png": built(header(1, 1, 8, 5), (b"IDAT", pixel)),
        "png-unknown-filter.png": built(header(1, 1, 8, 2, b"\0\1\0"), (b"IDAT", pixel)),
        "png-no-header.png": built((b"IDAT", pixel)),
        "png-short-header.png": built((b"IHDR", b"\0\0\0\1")),
        "png-no-pixels.png": built(header(1, 1, 8, 2)),
        "png-pixels-not-zlib.png": built(header(1, 1, 8, 2), (b"IDAT", b"not zlib at all")),
        "png-row-filter-9.png": built(header(1, 1, 8, 2), (b"IDAT", zlib.compress(b"\x09\1\2\3", 0))),
        "png-wrong-checksum.png": good.replace(b"IHDR", b"IHDR", 1)[:29] + b"\0\0\0\0" + good[33:],
        "png-chunk-of-4-gigabytes.png": PNG_SIGNATURE + b"\xff\xff\xff\xffIHDR" + good[16:],
        "png-garbage-in-pixels.png": good[:middle] + bytes(range(20)) + good[middle + 20 :].replace(b"\0", b"\xee"),
        "png-short-transparent-colour.png": built(header(1, 1, 8, 2), (b"tRNS", b"\0"), (b"IDAT", pixel)),
        "png-frames-out-of-order.png": built(
            header(1, 1, 8, 2),
            (b"acTL", bytes((0, 0, 0, 2, 0, 0, 0, 0))),
            (b"fcTL", struct.pack(">L", 7) + bytes(22)),
        ),
    }


def _broken_jpeg() -> dict[str, bytes]:
    good = valid_jpeg.jpeg()
    frame = good.index(b"\xff\xc0")
    scan = good.index(b"\xff\xda")
    lossless = good[:frame] + b"\xff\xc3" + good[frame + 2 :]
    return {
        "jpeg-12-bit.jpg": good[: frame + 4] + b"\x0c" + good[frame + 5 :],
        "jpeg-two-layers.jpg": good[: frame + 9] + b"\2" + good[frame + 10 :],
        "jpeg-no-height.jpg": good[: frame + 5] + b"\0\0" + good[frame + 7 :],
        "jpeg-no-frame.jpg": good[:frame] + good[scan:],
        "jpeg-lossless.jpg": lossless,
        "jpeg-segment-too-long.jpg": good[:2] + b"\xff\xe1\xff\xff" + good[2:],
        "jpeg-segment-of-nothing.jpg": good[:2] + b"\xff\xe1\0\0" + b"\0" * 30,
        "jpeg-sampling-15.jpg": good[: frame + 11] + b"\xff" + good[frame + 12 :],
        "jpeg-start-of-scan-only.jpg": b"\xff\xd8" + good[scan:],
    }


def _broken_others() -> dict[str, bytes]:
    def dot(bits: list[int], data: bytes, tag: int = 256, *values: int) -> bytes:
        one: Tags = {256: ("H", (1,)), 257: ("H", (1,)), 278: ("H", (1,))}
        return Stored(BLACK_IS_ZERO, bits, data).file(one | {tag: ("L", values or (1,))})

    return {
        "tiff-float-too-bright.tif": dot([32], struct.pack("<f", 1e6), 339, FLOAT),
        "tiff-64-bit-float.tif": dot([64], struct.pack("<d", 0.5), 339, FLOAT),
        "tiff-9-samples.tif": dot([8] * 9, bytes(9)),
        "tiff-no-width.tif": dot([8], b"\0", 256, 0),
        "tiff-no-directory.tif": b"II*\0\xff\xff\xff\x7f",
        "tiff-directory-in-header.tif": b"II*\0\0\0\0\0" + bytes(40),
        "tiff-unknown-compression.tif": dot([8], b"\0", 259, 12_345),
        "tiff-lzw-garbage.tif": dot([8], b"garbage!", 259, 5),
        "tiff-deflate-garbage.tif": dot([8], b"garbage!", 259, 8),
        "tiff-jpeg-garbage.tif": dot([8], b"\xff\xd8garbage", 259, 7),
        "tiff-strip-outside.tif": dot([8], b"\0", 273, 2**31),
        "gif-no-frame.gif": b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0) + b";",
        "gif-no-size.gif": gif((0, 0), [gif_frame((0, 0, 0, 0), [])], palette=bytes(6)),
        "gif-code-size-13.gif": gif((1, 1), [gif_frame((0, 0, 1, 1), [0])[:10] + b"\x0d\1\0\0"], palette=bytes(6)),
        "bmp-depth-7.bmp": bmp((1, 1), 7, [b"\0"]),
        "bmp-compression-9.bmp": bmp((1, 1), 24, [b"\0\0\0"], compression=9),
        "bmp-strange-masks.bmp": bmp((1, 1), 16, [b"\0\0"], compression=3, masks=(1, 2, 4)),
        "ppm-negative.ppm": b"P6 -1 1 255\n" + bytes(3),
        "ppm-no-number.ppm": b"P6 1 x 255\n" + bytes(3),
        "ppm-no-levels.ppm": b"P6 1 1 0\n" + bytes(3),
        "webp-garbage.webp": riff_webp((b"VP8L", b"\x2f\0\0\0\0" + bytes(range(30)))),
        "webp-no-picture.webp": riff_webp((b"VP8X", bytes(10)), (b"EXIF", b"nothing")),
    }


def _oversized() -> Iterator[tuple[str, bytes]]:
    """Headers alone: what they announce is refused before anything is decoded."""
    header = struct.pack(">LLBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    yield "huge.png", PNG_SIGNATURE + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", b"\x78\x9c")
    good = valid_jpeg.jpeg()
    frame = good.index(b"\xff\xc0") + 5
    yield "huge.jpg", good[:frame] + b"\xff\xff\xff\xff" + good[frame + 4 :]
    yield "huge.gif", gif((65_535, 65_535), [gif_frame((0, 0, 1, 1), [0])], palette=bytes(6))
    yield "huge.bmp", bmp((100_000, 100_000), 24, [b"\0\0\0"])
    yield "huge.ppm", b"P6 99999 99999 255\n"
    yield "huge.webp", riff_webp((b"VP8X", bytes(4) + b"\xff" * 6), (b"ANIM", bytes(6)))
    sized: Tags = {256: ("L", (65_000,)), 257: ("L", (65_000,))}
    yield "huge.tif", Stored(BLACK_IS_ZERO, [8], b"\0").file(sized)
    yield "too-wide.png", png((70_000, 1), 8, 0, [bytes(70_000)], level=9)
