"""Describe a body of an unsupported format in the error message to the client."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.writers import Tags, tiff_directory
from lightbox.base.errors import ImageUndecodable
from lightbox.images.decode import decode_rgb
from lightbox.images.foreign import describe, file_format
from support.parameters import each


@each(
    ("body", "words"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC, as iPhones save it: convert it to JPEG"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x14ftypqt  ", "a video"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"\xff\x0a\xff", "JPEG XL"),
        (b"\0\0\0\x18ftypcrx \0\0\0\1", "a camera's RAW file"),
        (b"FUJIFILMCCD-RAW 0201", "a camera's RAW file"),
        (b"IIU\0\x18\0\0\0", "a camera's RAW file"),
        (b"%PDF-1.7\n", "PDF"),
        (b"<?xml version='1.0'?>\n<!-- a tool -->\n<svg>", "SVG"),
        (b"\0\0\1\0\1\0", "a Windows icon"),
    ],
)
def test_files_of_other_formats(body: bytes, words: str) -> None:
    assert describe(body).startswith(words)
    assert file_format(memoryview(body)) == describe(body)


@each(
    ("body", "words"),
    [
        (b"\n<!DOCTYPE html><html>", "HTML"),
        (b"<HTML><head>", "HTML"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b\x08", "a file compressed with gzip"),
        (b'{"instances": [1]}', "JSON: its Content-Type is application/json"),
        (b"/9j/4AAQSkZJRg", "base64 of an image"),
        (b"\x93NUMPY\1\0", "a NumPy array"),
        (b"", "nothing: it is empty"),
        ("https://a.b/Löwe.jpg".encode(), "the text 'https://a.b/Löwe.jpg'"),
        (b"a\nb" * 1000, "the text 'a\\nba\\nb"),
        (b"\0\1\2\xff" * 4, "bytes that begin with 00 01 02 ff 00 01 02 ff"),
        (b"II*", "the text 'II*'"),
    ],
)
def test_what_is_no_file_of_another_format(body: bytes, words: str) -> None:
    assert describe(body).startswith(words)
    assert len(describe(body)) < 100
    assert file_format(body) is None


PICTURE: Tags = {
    **{256: ("L", (2,)), 257: ("L", (2,)), 258: ("H", (8,)), 259: ("H", (1,)), 262: ("H", (1,))},
    **{273: ("L", (400,)), 277: ("H", (1,)), 278: ("L", (2,)), 279: ("L", (4,))},
}
PLAIN: Tags = {256: ("L", (2,)), 262: ("H", (1,))}
SENSOR: Tags = {256: ("L", (2,)), 262: ("H", (32803,))}


def tiff(first: Tags, below: Tags, order: str, inside: bytes = b"") -> bytes:
    """Return a TIFF of four pixels with a directory at 500 that its first one may name."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + (8 + len(inside)).to_bytes(4, "little" if order == "<" else "big")
    body = head + inside + tiff_directory(PICTURE | first, order, 8 + len(inside))
    return body.ljust(400, b"\0") + b"\1\2\3\4".ljust(100, b"\0") + tiff_directory(below, order, 500)


@each("order", ["<", ">"])
@each(
    ("first", "below"),
    [
        ({254: ("L", (1,)), 330: ("L", (500,))}, PLAIN),
        ({254: ("H", (1,)), 330: ("L", (500, 500))}, PLAIN),
        ({330: ("L", (500,))}, SENSOR),
        ({330: ("L", (390, 500))}, SENSOR),
        ({50706: ("B", (1, 4, 0, 0))}, PLAIN),
    ],
)
def test_a_cameras_raw_file_is_named(first: Tags, below: Tags, order: str) -> None:
    with pytest.raises(ImageUndecodable, match=r"^Expected an image, got a camera's RAW file: develop it"):
        decode_rgb(tiff(first, below, order))


def test_canons_raw_file_is_named_and_no_picture_whose_first_pixels_are_its_letters() -> None:
    with pytest.raises(ImageUndecodable, match="a camera's RAW file"):
        decode_rgb(tiff({}, PLAIN, "<", b"CR\2\0\0\0\0\0"))
    for order, pixels in (("<", b"CRCRCRCR\0\0"), ("<", b"CRCRCRCR"), (">", b"CR\2\0\0\0\0\0")):
        picture = tiff({273: ("L", (8,))}, PLAIN, order, pixels)
        assert [decode_rgb(picture).getpixel(place) for place in ((0, 0), (1, 0))] == [(67,) * 3, (82,) * 3]


@each("order", ["<", ">"])
@each(
    ("first", "below"),
    [
        ({}, SENSOR),
        ({254: ("L", (2,))}, PLAIN),
        ({330: ("L", (500,))}, {254: ("L", (1,)), **PLAIN}),  # a pyramid: smaller pictures below the whole one
        ({330: ("L", (1 << 30,))}, PLAIN),
        ({330: ("L", (1 << 30, 7))}, PLAIN),
    ],
)
def test_other_tiffs_are_pictures(first: Tags, below: Tags, order: str) -> None:
    assert decode_rgb(tiff(first, below, order)).size == (2, 2)


def test_an_avif_may_not_hold_more_than_its_header_says() -> None:
    """libavif would decode such a file and scale it down."""
    body = (Path(__file__).parents[3] / "corpus/valid/avif-lossy.avif").read_bytes()
    size = body.index(b"ispe") + 8
    with pytest.raises(ImageUndecodable, match="AVIF image cannot be decoded"):
        decode_rgb(body[:size] + (16).to_bytes(4, "big") * 2 + body[size + 8 :])
