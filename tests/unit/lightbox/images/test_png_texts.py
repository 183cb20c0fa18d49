"""PNG files with a large profile or large texts, as programs for workflows and colours write them."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from lightbox.base.errors import ImageUndecodable
from lightbox.images.decode import decode_rgb, open_image
from lightbox.images.png_texts import without_large_texts
from support.fakes import png
from support.parameters import each

PLAIN = png(np.random.default_rng(0).integers(0, 256, (8, 8, 3)))
HEAD, END = 33, -12
"""Where chunks may stand: behind IHDR, and before IEND."""
LARGE = b"workflow " * 230_000


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


COMPRESSED = chunk(b"zTXt", b"a\0\0" + zlib.compress(LARGE))
CHUNKS = {
    "profile": chunk(b"iCCP", b"a\0\0" + zlib.compress(LARGE)),
    "text": chunk(b"tEXt", b"a\0" + LARGE),
    "compressed": COMPRESSED,
    "international": chunk(b"iTXt", b"a\0\1\0en\0b\0" + zlib.compress(LARGE)),
    "plain international": chunk(b"iTXt", b"a\0\0\0en\0b\0" + LARGE),
    "many": 400 * chunk(b"zTXt", b"a\0\0" + zlib.compress(LARGE[: 1 << 17])),
}


@each("added", CHUNKS.values())
@each("at", [HEAD, END])
def test_the_pixels_are_those_of_the_file_without_them(added: bytes, at: int) -> None:
    body = PLAIN[:at] + added + PLAIN[at:]
    assert decode_rgb(body).tobytes() == decode_rgb(PLAIN).tobytes()
    assert len(without_large_texts(body)) < len(PLAIN) + (5 << 20)


def test_small_texts_stay_with_their_orientation() -> None:
    small = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"small"))
    exif = Image.Exif()
    exif[274] = 6
    raw = exif.tobytes()
    lines = b"\nexif\n%8d\n%s\n" % (len(raw), raw.hex().encode())
    turned = chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(lines))
    body = PLAIN[:HEAD] + small + COMPRESSED + turned + PLAIN[HEAD:]
    assert without_large_texts(body) == PLAIN[:HEAD] + small + turned + PLAIN[HEAD:]
    assert np.array_equal(np.asarray(decode_rgb(body)), np.rot90(np.asarray(decode_rgb(PLAIN)), -1))


def test_a_broken_file_stays_broken() -> None:
    for cut in (PLAIN[:40] + COMPRESSED[:50], PLAIN[:HEAD] + chunk(b"zTXt", b"a\0\0broken")):
        assert without_large_texts(cut) == cut
        with pytest.raises(ImageUndecodable):
            open_image(cut).load()
            decode_rgb(cut)
