"""Format detection. Only the plugins of allowed formats are loaded."""

from __future__ import annotations

import sys
import textwrap
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from corpus import writers
from corpus.writers import jpeg_segment, tiff_directory
from lightbox.base.errors import ImageUndecodable
from lightbox.images.decode import ImageLimits, decode_rgb, is_image, open_image, sniff_format
from support import commands
from support.parameters import each

JPEG = (Path(__file__).parents[3] / "corpus/valid/jpeg-444.jpg").read_bytes()


@each(
    ("body", "name"),
    [
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"GIF87a", "GIF"),
        (b"GIF89a", "GIF"),
        (b"RIFF\x0a\n\0\0WEBPVP8 ", "WEBP"),
        (b"RIFF....WEBPVP8L", "WEBP"),
        (b"RIFF....WEBPVP8X", "WEBP"),
        (b"BM\n" + bytes(11) + b"\x28\0\0\0", "BMP"),
        (b"BM" + bytes(12) + b"\x0c\0\0\0", "BMP"),
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"II+\0", "TIFF"),
        (b"P4\n8 8\n", "PPM"),
        (b"P5 8 8 255\n", "PPM"),
        (b"P6\n# comment\n", "PPM"),
        (b"\0\0\0 ftypavif", "AVIF"),
        (b"\0\0\0 ftypavis", "AVIF"),
        (b"\0\0\0 ftypmif1\0\0\0\0mif1miafavif", "AVIF"),
    ],
)
def test_the_format_is_found_by_the_first_bytes(body: bytes, name: str) -> None:
    assert sniff_format(body) == name
    assert sniff_format(memoryview(body)) == name
    assert is_image(body)


@each(
    "body",
    [b"", b"B", b"BM", b"BMW,1,2\nVW,3,4,5,6", b"GIF", b"P6,1,2", b"P3\n1 1\n", b"RIFF....WAVEfmt ", b"{}",
     b"%!PS-Adobe", b"\0\0\0\x18ftypheic",
     b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", b"\n\xff\xd8\xff", b"MM\0\x2b", b"1,2,3\n", b"\x93NUMPY"],
)  # fmt: skip
def test_what_is_no_image(body: bytes) -> None:
    assert sniff_format(body) is None
    assert not is_image(body)


def test_a_jpegs_resolution_is_not_read_from_its_exif() -> None:
    """On opening, Pillow reads it from the EXIF without a size limit, and fails on broken EXIF."""
    resolution = tiff_directory({0x011A: ("L", (300,)), 0x0128: ("H", (2,))}, ">", 8)
    segment = jpeg_segment(0xE1, b"Exif\0\0MM\0*\0\0\0\x08" + resolution)
    without_jfif = JPEG[:2] + segment + JPEG[20:]
    assert Image.open(BytesIO(without_jfif)).info["dpi"] == (300, 300)
    assert "dpi" not in open_image(without_jfif).info


def test_only_the_plugins_of_the_allowed_formats_are_loaded() -> None:
    """This includes bad bodies: Image.open would try all plugins for them, including Ghostscript's."""
    script = f"""
        import sys
        from lightbox.base.errors import ImageUndecodable
        from lightbox.images.decode import decode_rgb
        before = set(sys.modules)
        decode_rgb({JPEG!r})
        for body in (b"%!PS-Adobe-3.0 EPSF-3.0", b"\\x89PNG\\r\\n\\x1a\\n garbage"):
            try:
                decode_rgb(body)
            except ImageUndecodable:
                pass
        plugins = {{name for name in sys.modules if name.endswith("ImagePlugin")}}
        print(sorted(plugins), {{name for name in set(sys.modules) - before if name.startswith("PIL")}})
    """
    printed = commands.output([sys.executable, "-c", textwrap.dedent(script)], {"PYTHONPATH": ":".join(sys.path)})
    allowed = ["Avif", "Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP"]
    assert printed.strip() == f"{[f'PIL.{name}ImagePlugin' for name in allowed]} set()"


@pytest.mark.parametrize(("bits", "colours", "sentence"), [(8, 65_536, "65,536 colours"), (1, 257, "257 colours")])
def test_a_palette_beyond_the_file_is_not_looked_for(bits: int, colours: int, sentence: str) -> None:
    body = writers.bmp((1, 1), bits, [b"\0\0\0\0"])
    declared = body[:46] + colours.to_bytes(4, "little") + body[50:]
    with pytest.raises(ImageUndecodable, match=f"declares a palette of {sentence}, more than the file holds"):
        decode_rgb(declared, ImageLimits())


def test_a_count_of_colours_that_nothing_uses_is_passed_over() -> None:
    body = writers.bmp((1, 1), 24, [b"\1\2\3\0"])
    assert decode_rgb(body[:46] + b"\xff\xff\0\0" + body[50:], ImageLimits()).tobytes() == b"\3\2\1"
