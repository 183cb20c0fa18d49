"""The synthetic photograph."""

from __future__ import annotations

from lightbox.images.decode import decode_rgb
from lightbox.tools.tune.load import photo_like


def test_it_is_a_jpeg_of_the_size_asked_for_and_of_a_photograph_s_bytes() -> None:
    body = photo_like(1024, 768)
    assert decode_rgb(body).size == (1024, 768)
    assert 150_000 < len(body) < 300_000
    assert body == photo_like(1024, 768)


def test_narrow_ones_can_be_made_too() -> None:
    assert decode_rgb(photo_like(64, 4)).size == (64, 4)
