"""Opening and decoding: limits, orientation, options, errors."""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from corpus.writers import exif, jpeg_segment, with_segments
from lightbox.base.errors import ImageUndecodable, LightboxError, TooLarge
from lightbox.images.decode import ImageLimits, decode_for_resize, decode_rgb, open_image
from lightbox.images.limits import TimeLimitedBytes, Undecodable
from lightbox.images.preparation import Size
from lightbox.images.resize import for_pillow
from support.corpus_images import JPEG, PICTURE, oriented, saved
from support.parameters import each


def test_open_image_reads_the_header_only() -> None:
    body = saved(PICTURE, "PNG")
    for header in (body, body[: len(body) * 2 // 3]):
        image = open_image(header)
        assert (image.format, image.size, image.mode) == ("PNG", (48, 32), "RGB")
        assert image.tile, "the pixels were decoded"


def test_a_memoryview_is_as_good_as_bytes() -> None:
    body = memoryview(b"envelope" + JPEG)[8:]
    assert decode_rgb(body).tobytes() == decode_rgb(JPEG).tobytes()


@pytest.mark.extended
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_jpeg_that_will_be_resized_is_reduced_to_no_less_than_twice_that(orientation: int) -> None:
    large = Image.effect_noise((800, 600), 30).resize((1600, 1200)).convert("RGB")
    segment = jpeg_segment(0xE1, exif(orientation))
    body = with_segments(saved(large, "JPEG", quality=95), segment)
    size = (300, 150) if orientation == 1 else (150, 300)
    whole, asked = decode_rgb(body), []

    def resized(picture: tuple[int, int]) -> tuple[int, int]:
        asked.append(picture)
        return size

    reduced = decode_for_resize(body, resized=resized)
    assert reduced.pixels.size == ((800, 600) if orientation == 1 else (600, 800))
    assert set(asked) == {reduced.size} == {whole.size}
    apart = np.asarray(whole.resize(size)).astype(int) - np.asarray(for_pillow(reduced.pixels).resize(size))
    assert np.abs(apart).mean() < 2
    assert decode_for_resize(body, resized=lambda picture: (500, 500)).pixels.size == whole.size
    assert decode_for_resize(saved(large, "PNG"), resized=resized).pixels.size == (1600, 1200)


@pytest.mark.extended
@each(
    ("size", "reduced"),
    [
        ((1608, 1200), (201, 150)),
        ((1604, 1200), (401, 300)),
        ((1602, 1200), (801, 600)),
        ((1600, 1201), (1600, 1201)),
    ],
)
@each("orientation", [1, 3, 6, 8])
def test_a_reduced_picture_is_not_moved(size: Size, reduced: Size, orientation: int) -> None:
    """If a side is not a multiple of the scale, the last cells would cover only part of their area."""
    stripes = np.repeat(np.arange(-(-size[0] // 25)) % 2 * 200, 25)[: size[0]].astype(np.uint8)
    photo = Image.fromarray(np.broadcast_to(stripes, size[::-1])).convert("RGB")
    body = with_segments(saved(photo, "JPEG", quality=95, subsampling=0), jpeg_segment(0xE1, exif(orientation)))
    target = (64, 64)
    found = decode_for_resize(body, resized=lambda picture: target).pixels
    assert sorted(found.size) == sorted(reduced)
    whole, small = (np.asarray(image.resize(target), int) for image in (decode_rgb(body), for_pillow(found)))
    assert np.abs(whole - small).max() <= 8


@each(
    ("limits", "sentence"),
    [
        (ImageLimits(max_pixels=10_000), r"10,000 are accepted \(LIGHTBOX_MAX_IMAGE_PIXELS\)"),
        (ImageLimits(max_side=150), "150 are accepted in one direction"),
        (
            ImageLimits(max_memory_mb=0),
            "0 MB are allowed: 8 bytes for each of LIGHTBOX_MAX_IMAGE_PIXELS, and never less than 400 MB",
        ),
    ],
)
@each("format_name", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_each_limit_is_reported(limits: ImageLimits, sentence: str, format_name: str) -> None:
    body = saved(Image.effect_noise((200, 100), 50).convert("RGB"), format_name)
    assert decode_rgb(body).size == (200, 100)
    with pytest.raises(TooLarge, match=rf"{sentence}\.$"):
        open_image(body, limits)


def test_our_limit_decides_not_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    bodies = [saved(Image.new("RGB", (200, 100)), name) for name in ("TIFF", "GIF", "WEBP", "PNG")]
    for body in bodies:
        assert decode_rgb(body, ImageLimits(max_pixels=20_000)).size == (200, 100)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert decode_rgb(bodies[0]).size == (200, 100)


def test_pillows_own_limit_is_never_lowered() -> None:
    before = Image.MAX_IMAGE_PIXELS
    decode_rgb(JPEG, ImageLimits(max_pixels=10_000))
    assert before == Image.MAX_IMAGE_PIXELS


@each(
    "error",
    [OSError("x"), SyntaxError("x"), ValueError("x"), struct.error("x"), zlib.error("x"), EOFError("x"),
     IndexError("x"), KeyError("x"), TypeError("x"), OverflowError("x"), NotImplementedError("x"),
     AttributeError("x"), RecursionError("x"), AssertionError(), ZeroDivisionError("x"), UserWarning("x")],
)  # fmt: skip
def test_whatever_pillow_raises_is_the_callers_fault(error: Exception) -> None:
    sentence = r"^The GIF image cannot be decoded: .+\.$"
    with pytest.raises(ImageUndecodable, match=sentence) as raised, Undecodable("GIF image"):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [MemoryError(), Image.DecompressionBombError("x")])
def test_lack_of_memory_is_too_large(error: Exception) -> None:
    with pytest.raises(TooLarge, match=r"than (are accepted|is available)"), Undecodable("GIF image"):
        raise error


def test_messages_quote_little_of_the_file() -> None:
    with pytest.raises(ImageUndecodable) as raised, Undecodable("PNG image"):
        raise SyntaxError(f"chunk {'A' * 5000}\n forged line")
    assert len(raised.value.message) < 250
    assert "\n" not in raised.value.message


def test_reading_ends_with_the_readers_patience() -> None:
    file = TimeLimitedBytes(bytes(100), cpu_seconds=0)
    with pytest.raises(ImageUndecodable, match=r"more than 0 s of processor time"):
        for _ in range(100):
            file.read(1)
    file.allow(1000)
    assert file.read(3) == bytes(3)


def test_threads_decode_side_by_side() -> None:
    bodies = [oriented(6), saved(Image.new("RGBA", (50, 40), (1, 2, 3, 100)), "PNG"), b"no image"] * 40

    def decode(body: bytes) -> object:
        try:
            return decode_rgb(body).tobytes()
        except LightboxError as error:
            return error.message

    alone = [decode(body) for body in bodies[:3]]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decode, bodies)) == alone * 40
