"""simplejpeg produces the same pixels as Pillow. Other files are decoded by Pillow."""

from __future__ import annotations

import ctypes
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from corpus.writers import exif, jpeg_segment, with_segments
from lightbox.base.errors import ImageUndecodable, TooLarge
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image import ImageCodec
from lightbox.images import jpeg
from lightbox.images.decode import ImageLimits, decode_for_resize, decode_rgb, open_image
from lightbox.images.exif import orientation_of
from lightbox.images.resize import Rgbx, load_native
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.memory_use import PeakGrowth
from support.parameters import each

CORPUS = Path(__file__).parents[3] / "corpus" / "valid"
JPEGS = sorted(CORPUS.glob("*.jpg"))
LEFT_TO_PILLOW = ("progressive", "grey", "cmyk")
LIMITS = ImageLimits(max_pixels=2_000_000, max_memory_mb=60)

sides = st.one_of(st.integers(1, 40), st.integers(1, 300))


def saved(image: Image.Image, format_name: str, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def as_pillow(found: Image.Image | Rgbx) -> Image.Image:
    return found.image if isinstance(found, Rgbx) else found


def same_outcome(body: bytes) -> Image.Image | Rgbx | None:
    """Check that both decoders have the same outcome; return the fast one's pixels, or None for an error."""
    try:
        expected = decode_rgb(body, LIMITS)
    except (ImageUndecodable, TooLarge) as error:
        with pytest.raises(type(error)) as raised:
            decode_for_resize(body, LIMITS)
        assert raised.value.message == error.message
        return None
    found = decode_for_resize(body, LIMITS).pixels
    assert found.size == expected.size
    assert as_pillow(found).tobytes() == expected.tobytes()
    return found


@settings(max_examples=150, deadline=None)
@given(
    sides,
    sides,
    st.integers(0, 2**32 - 1),
    st.integers(1, 100),
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "4:1:1"]),
    st.sampled_from([{}, {"restart_marker_blocks": 3}, {"keep_rgb": True}]),
    st.booleans(),
)
def test_the_pixels_are_pillows(
    width: int, height: int, seed: int, quality: int, subsampling: str, options: dict[str, object], smooth: bool
) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(pixels)
    if smooth:
        image = Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)).resize((width, height))
    if "keep_rgb" in options:
        subsampling = "4:4:4"
    body = saved(image, "JPEG", quality=quality, subsampling=subsampling, **options)
    assert isinstance(same_outcome(body), Rgbx)


@each("path", JPEGS)
def test_the_corpus(path: Path) -> None:
    found = same_outcome(path.read_bytes())
    if any(word in path.name for word in LEFT_TO_PILLOW):
        assert isinstance(found, Image.Image)


@pytest.mark.extended
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(JPEGS), st.integers(0, 10**9), st.binary(max_size=4), st.integers(0, 4))
def test_damaged_files_end_as_with_pillow(path: Path, place: int, piece: bytes, removed: int) -> None:
    body = path.read_bytes()
    at = place % len(body)
    same_outcome(body[:at] + piece + body[at + removed :])


@each("orientation", range(1, 9))
def test_a_photo_is_turned_upright(orientation: int) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (30, 50, 3), np.uint8)
    body = with_segments(saved(Image.fromarray(noise), "JPEG"), jpeg_segment(0xE1, exif(orientation)))
    expected = decode_rgb(body)
    found = decode_for_resize(body).pixels
    assert as_pillow(found).tobytes() == expected.tobytes()
    assert isinstance(found, Rgbx) == (orientation == 1)


def test_pillow_reduces_and_makes_grey() -> None:
    body = saved(Image.effect_noise((1600, 1200), 30).convert("RGB"), "JPEG")
    for options in ({"resized": lambda size: (100, 100)}, {"mode": "L"}):
        found, expected = decode_for_resize(body, **options), decode_for_resize(body, **options, to_pillow=True)
        assert isinstance(found.pixels, Image.Image)
        assert found.pixels.tobytes() == as_pillow(expected.pixels).tobytes()
    assert isinstance(decode_for_resize(body, resized=lambda size: (1000, 1000)).pixels, Rgbx)


def test_without_simplejpeg_or_with_other_pixels_pillow_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jpeg.jpeg_agrees()
    with monkeypatch.context() as patch:
        patch.setattr(jpeg, "simplejpeg", None)
        assert not jpeg.jpeg_agrees()
        assert ImageCodec(codec_options(load_settings({})))._decode.keywords == {"to_pillow": True}
    with monkeypatch.context() as patch:
        other = simplejpeg.decode_jpeg

        class Other:
            def decode_jpeg(self, *args: object, **options: object) -> object:
                return other(*args, fastupsample=True, fastdct=True, **options)

        patch.setattr(jpeg, "simplejpeg", Other())
        jpeg._agrees.cache_clear()
        assert not jpeg.jpeg_agrees()
    jpeg._agrees.cache_clear()


@pytest.mark.extended
def test_a_turned_photo_takes_no_more_memory_than_is_estimated() -> None:
    photo = saved(Image.effect_noise((1000, 1000), 30).resize((5000, 4000)).convert("RGB"), "JPEG", quality=60)
    body = with_segments(photo, jpeg_segment(0xE1, exif(6)))
    ctypes.CDLL(None).malloc_trim(0)
    growth = PeakGrowth()
    found = decode_for_resize(body, ImageLimits(max_memory_mb=160)).pixels  # 8 bytes a pixel
    assert found.size == (4000, 5000)
    assert growth.mb() < 190


@pytest.mark.skipif(load_native() is None, reason="the resize is not compiled")
def test_the_decoder_is_that_of_the_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ImageCodec(CodecOptions())._decode.keywords == {"to_pillow": False}
    monkeypatch.setattr("lightbox.codecs.image.load_native", lambda: None)
    assert ImageCodec(CodecOptions())._decode.keywords == {"to_pillow": True}


def test_the_copy_for_pillow_has_its_own_memory() -> None:
    found = decode_for_resize(saved(Image.new("RGB", (9, 7), "red"), "JPEG")).pixels
    assert isinstance(found, Rgbx)
    image = found.image
    found.pixels[:] = 0
    assert image.getpixel((0, 0)) != (0, 0, 0)


@each(
    ("segments", "is_read"),
    [
        ([(0xFE, b"a comment"), (0xE5, b"an application's own")], True),
        ([(0xE1, exif(1)), (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>")], True),
        ([(0xED, b"Photoshop 3.0\0")], False),
        ([(0xE0, b"JFIF\0")], False),
        ([(0xFE, b"")] * 500, False),
    ],
)
def test_the_header_is_read_without_pillow_unless_it_is_unusual(
    segments: list[tuple[int, bytes]], is_read: bool
) -> None:
    plain = saved(Image.effect_noise((50, 30), 30).convert("RGB"), "JPEG")
    body = with_segments(plain, b"".join(jpeg_segment(*segment) for segment in segments))
    assert (jpeg.read_head(body) is not None) == is_read
    for length in range(len(body)):
        jpeg.read_head(body[:length])


@each(("exif_says", "xmp_says"), [(6, 3), (None, 3), (9, 3), (None, None)])
def test_the_orientation_is_pillows(exif_says: int | None, xmp_says: int | None) -> None:
    found = [jpeg_segment(0xE1, exif(exif_says))] if exif_says else []
    if xmp_says:
        text = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="%d"/>' % xmp_says
        found.insert(0, jpeg_segment(0xE1, text))
    body = with_segments(saved(Image.effect_noise((50, 30), 30).convert("RGB"), "JPEG"), b"".join(found))
    head = jpeg.read_head(body)
    assert head is not None
    assert head.orientation == orientation_of(open_image(body))
