"""Orientation from EXIF and XMP."""

from __future__ import annotations

import zlib

from corpus.writers import exif, jpeg_segment, png, with_segments
from lightbox.images.decode import decode_rgb
from support.corpus_images import JPEG, PICTURE, oriented, saved
from support.parameters import each


@each("orientation", range(1, 9))
@each("format_name", ["PNG", "WEBP", "TIFF"])
def test_orientation_is_applied_as_to_a_jpeg(format_name: str, orientation: int) -> None:
    if format_name == "TIFF":
        body = saved(PICTURE, "TIFF", tiffinfo={274: orientation}, compression="tiff_lzw")
    else:
        body = saved(PICTURE, format_name, exif=exif(orientation), lossless=True)
    assert decode_rgb(body).tobytes() == decode_rgb(oriented(orientation)).tobytes()


def test_orientation_as_imagemagick_writes_it_into_png() -> None:
    block = exif(6)
    profile = f"\nexif\n{len(block):8}\n{block.hex()}\n".encode()
    text = b"Raw profile type exif\0\0" + zlib.compress(profile)
    for chunk, size in ((text, (3, 5)), (b"Raw profile type exif\0\0" + zlib.compress(b"\n\n\nxyz"), (5, 3))):
        body = png((5, 3), 8, 0, [bytes(5)] * 3, before=[(b"zTXt", chunk)])
        assert decode_rgb(body).size == size


def test_orientation_in_xmp_counts_where_exif_has_none() -> None:
    packet = b'http://ns.adobe.com/xap/1.0/\0<rdf:Description tiff:Orientation="6"/>'
    turned = with_segments(JPEG, jpeg_segment(0xE1, packet))
    assert decode_rgb(turned).size == (32, 48)
    both = with_segments(JPEG, jpeg_segment(0xE1, exif(1)), jpeg_segment(0xE1, packet))
    assert decode_rgb(both).size == (48, 32)
