"""Small requests that want much: files that would take gigabytes or minutes without limits.

Each function gives the body and the error code it must end with; None where it is merely large and decodes,
SLOW where only its reading time gives it away. They are made when they are needed: some are megabytes long.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from itertools import repeat

from PIL import Image

from corpus import writers

TOO_LARGE = "too_large"
UNDECODABLE = "image_undecodable"
SLOW = "slow"

Bomb = tuple[bytes, str | None]


def _jpeg(size: tuple[int, int] = (16, 16), **options: object) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, (10, 200, 90)).save(file, "JPEG", subsampling=0, **options)
    return file.getvalue()


def _deflated(row: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(row) for _ in range(times)) + packer.flush()


def _png_text(chunks: list[writers.Chunk]) -> bytes:
    return writers.png((1, 1), 8, 0, [b"\x40"], before=chunks)


def png_900_megapixels() -> Bomb:
    return writers.png((30_000, 30_000), 1, 0, repeat(bytes(3750), 300), level=9), TOO_LARGE


def png_45_megapixels() -> Bomb:
    return writers.png((9000, 5000), 8, 2, repeat(bytes(27_000), 5000), level=9), None


def png_one_side_too_long() -> Bomb:
    return writers.png((70_000, 1), 8, 0, [bytes(70_000)], level=9), TOO_LARGE


def png_45_megapixels_with_alpha() -> Bomb:
    return writers.png((9000, 5000), 8, 6, repeat(bytes(36_000), 5000), level=1), None


def png_profile_of_100_megabytes() -> Bomb:
    return _png_text([(b"iCCP", b"icc\0\0" + _deflated(bytes(1 << 20), 100))]), None  # nothing reads it


def png_twenty_thousand_texts() -> Bomb:
    # Without a keyword Pillow does not count them against its own limit of text memory.
    text = zlib.compress(bytes(1 << 20), 9)
    return _png_text([(b"zTXt", b"\0\0" + text)] * 20_000), None


def png_texts_behind_the_pixels() -> Bomb:
    text = zlib.compress(bytes(1 << 20), 9)
    return writers.png((1, 1), 8, 0, [b"\x40"], after=[(b"zTXt", b"\0\0" + text)] * 20_000), None


def png_two_million_empty_parts() -> Bomb:
    whole = writers.png((1, 1), 8, 0, [b"\x40"])
    at = whole.index(b"IDAT") - 4
    return whole[:at] + writers.png_chunk(b"IDAT", b"") * 2_000_000 + whole[at:], SLOW


def jpeg_65535_squared() -> Bomb:
    file = _jpeg()
    at = file.index(b"\xff\xc0") + 5
    return file[:at] + struct.pack(">HH", 65_535, 65_535) + file[at + 4 :], TOO_LARGE


def jpeg_thousands_of_scans() -> Bomb:
    file = BytesIO()
    Image.new("RGB", (6000, 6000)).save(file, "JPEG", progressive=True, subsampling=0)
    body = file.getvalue()
    return body[:-2] + b"\xff\xda\0\x08\1\1\0\x01\x3f\0" * 20_000 + body[-2:], UNDECODABLE


def jpeg_progressive_588_megabytes() -> Bomb:
    file = BytesIO()
    Image.new("CMYK", (16, 16)).save(file, "JPEG", progressive=True, subsampling=0)
    sized = struct.pack(">BHH", 8, 16, 16)
    assert file.getvalue().count(sized) == 1
    return file.getvalue().replace(sized, struct.pack(">BHH", 8, 7000, 7000)), TOO_LARGE


def jpeg_profile_of_16_megabytes() -> Bomb:
    segments = [writers.jpeg_segment(0xE2, b"ICC_PROFILE\0" + bytes([at, 255]) + bytes(65_500)) for at in range(1, 256)]
    return writers.with_segments(_jpeg(), *segments), None


def jpeg_deep_markers() -> Bomb:
    return writers.with_segments(_jpeg(), writers.jpeg_segment(0xE5, b"") * 3_000_000), SLOW


def jpeg_exif_in_many_pieces() -> Bomb:
    return writers.with_segments(_jpeg(), writers.jpeg_segment(0xE1, b"Exif\0\0abcdef") * 1_000_000), SLOW


def jpeg_filled_with_ff() -> Bomb:
    return writers.with_segments(_jpeg(), b"\xff" * 30_000_000), SLOW


def jpeg_resolution_of_a_million_fractions() -> Bomb:
    count = 1_000_000
    head = b"MM\0*\0\0\0\x08\0\1" + struct.pack(">HHLLL", 0x011A, 5, count, 26, 0)
    block = head + bytes(count * 8)
    pieces = [block[at : at + 65_000] for at in range(0, len(block), 65_000)]
    file = _jpeg()
    jfif = writers.jpeg_segment(0xE0, file[6:20])
    bare = file.replace(jfif, b"", 1)
    return writers.with_segments(bare, *(writers.jpeg_segment(0xE1, b"Exif\0\0" + p) for p in pieces)), None


def gif_65535_squared() -> Bomb:
    return writers.gif((65_535, 65_535), [writers.gif_frame((0, 0, 1, 1))]), TOO_LARGE


def gif_frame_far_outside() -> Bomb:
    return writers.gif((1, 1), [writers.gif_frame((65_000, 65_000, 65_000, 65_000))]), TOO_LARGE


def gif_frame_of_130_megapixels_disposed() -> Bomb:
    control = b"\x21\xf9\x04" + bytes([0b1000, 0, 0, 0]) + b"\0"
    return writers.gif((1, 1), [control + writers.gif_frame((0, 0, 13_000, 10_000))]), TOO_LARGE


def gif_comment_in_single_bytes() -> Bomb:
    comment = b"\x21\xfe" + b"\1a" * 8_000_000 + b"\0"
    return writers.gif((1, 1), [writers.gif_frame((0, 0, 1, 1))], before=comment), SLOW


def webp_canvas_of_16_million_squared() -> Bomb:
    return writers.riff_webp(writers.vp8x(1 << 24, 1 << 24, 0x02), (b"ANIM", bytes(6))), TOO_LARGE


def webp_animation_canvas() -> Bomb:
    frames = [Image.new("RGB", (6000, 5000), (shade, 0, 0)) for shade in (1, 2)]
    file = BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], method=0, quality=0)
    return file.getvalue(), TOO_LARGE


def webp_24_megapixels() -> Bomb:
    file = BytesIO()
    Image.new("RGBA", (6000, 4000), (1, 2, 3, 4)).save(file, "WEBP", method=0, quality=0)
    return file.getvalue(), None


def webp_lossless_16384_squared() -> Bomb:
    return writers.riff_webp((b"VP8L", b"\x2f\xff\xff\xff\x0f" + bytes(60))), TOO_LARGE


def avif_of_12_megapixels_that_says_16_squared() -> Bomb:
    return _flat_avif(4000, 3000).replace(struct.pack(">LL", 4000, 3000), struct.pack(">LL", 16, 16)), UNDECODABLE


def avif_20_megapixels() -> Bomb:
    return _flat_avif(5000, 4000), None


def avif_24_megapixels() -> Bomb:
    return _flat_avif(16, 16).replace(struct.pack(">LL", 16, 16), struct.pack(">LL", 6000, 4000)), TOO_LARGE


def _flat_avif(width: int, height: int) -> bytes:
    file = BytesIO()
    Image.new("RGBA", (width, height), (1, 2, 3, 4)).save(file, "AVIF", speed=10, subsampling="4:4:4")
    return file.getvalue()


def _tiff_tags(width: int, height: int, **more: int) -> writers.Tags:
    numbers = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 1}
    numbers |= {int(tag.lstrip("t")): value for tag, value in more.items()}
    return {tag: ("L", (value,)) for tag, value in numbers.items()}


def tiff_4_billion_pixels() -> Bomb:
    return writers.tiff(_tiff_tags(65_000, 65_000), b"\0"), TOO_LARGE


def tiff_strip_bomb() -> Bomb:
    data = _deflated(bytes(12_000), 12_000)
    return writers.tiff(_tiff_tags(12_000, 12_000, t259=8, t279=len(data)), data), TOO_LARGE


def tiff_one_strip_of_64_bit_pixels() -> Bomb:
    data = _deflated(bytes(8 * 6000), 6000)
    tags = _tiff_tags(6000, 6000, t259=8, t279=len(data), t262=2, t277=4, t338=2)
    return writers.tiff(tags | {258: ("H", (16,) * 4)}, data), TOO_LARGE


def tiff_45_megapixels_of_32_bits() -> Bomb:
    data = _deflated(bytes(36_000), 5000)
    tags = _tiff_tags(9000, 5000, t258=32, t259=8, t279=len(data), t339=2, t274=6)
    return writers.tiff(tags, data), None


def tiff_tile_far_larger_than_the_image() -> Bomb:
    data = _deflated(bytes(12_000), 12_000)
    tags = _tiff_tags(1, 1, t259=8)
    for strip in (273, 278, 279):
        del tags[strip]
    tags |= {322: ("L", (12_000,)), 323: ("L", (12_000,)), 324: ("L", (8,)), 325: ("L", (len(data),))}
    return writers.tiff(tags, data), TOO_LARGE


def tiff_five_million_strips() -> Bomb:
    tags = _tiff_tags(1, 2, t278=1)
    count = 5_000_000  # as a literal below it would give mypy a type of five million items
    tags[273] = ("L", (8,) * count)
    return writers.tiff(tags, b"\0"), UNDECODABLE


def tiff_exif_of_a_million_fractions() -> Bomb:
    exif_at = len(writers.tiff(_tiff_tags(1, 1, t34665=0), b"\x80"))
    exif = struct.pack("<HHHLLL", 1, 0x829A, 5, 1_000_000, exif_at + 18, 0)
    return writers.tiff(_tiff_tags(1, 1, t34665=exif_at), b"\x80") + exif + bytes(8_000_000), None


def tiff_a_million_tags() -> Bomb:
    tag = struct.pack("<HHQQ", 65_000, 3, 1, 0)
    return b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, 1_000_000) + tag * 1_000_000, SLOW


def tiff_lzma_dictionary_of_512_megabytes() -> Bomb:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    data = bytearray(lzma.compress(b"\x80", lzma.FORMAT_XZ, filters=filters))
    return writers.tiff(_tiff_tags(1, 1, t259=34_925, t279=len(data)), bytes(data)), None


def bmp_two_billion_wide() -> Bomb:
    return writers.bmp((2**31 - 1, 2**31 - 1), 24, [b"\0\0\0"]), TOO_LARGE


def bmp_of_runs_that_are_too_long() -> Bomb:
    return writers.bmp((4, 4), 8, [b"\4\0" + b"\1\0" * 15_000_000], palette=bytes(1024), compression=1), SLOW


def bmp_of_lines_that_end_at_once() -> Bomb:
    return writers.bmp((60_000, 800), 8, [b"\1\0\0\0" * 800], palette=bytes(1024), compression=1), SLOW


def ppm_99999_squared() -> Bomb:
    return b"P6 99999 99999 255\n" + bytes(10), TOO_LARGE


def ppm_comment_without_end() -> Bomb:
    return b"P6\n#" + b"x" * 30_000_000 + b"\n1 1 255\nabc", SLOW


BOMBS: dict[str, Callable[[], Bomb]] = {
    name: make
    for name, make in list(globals().items())
    if name.startswith(("png_", "jpeg_", "gif_", "webp_", "avif_", "tiff_", "bmp_", "ppm_")) and callable(make)
}
