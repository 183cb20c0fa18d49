"""Convert each Pillow mode to RGB and grey, and compare with arithmetic done in the test."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from lightbox.base.errors import ImageUndecodable
from lightbox.images import color
from lightbox.images.color import to_grey, to_rgb
from support.parameters import each

SIZE = (7, 5)
RED_BACKGROUND = (250, 20, 3)
WHITE = (255, 255, 255)


Array = npt.NDArray[Any]


def noise(bands: int, dtype: type[np.generic] = np.uint8, top: int = 256, size: tuple[int, int] = SIZE) -> Array:
    shape = (size[1], size[0], bands) if bands > 1 else (size[1], size[0])
    return np.random.default_rng(7).integers(0, top, shape).astype(dtype)


def rgb(image: Image.Image, background: tuple[int, int, int] = (255, 255, 255)) -> Array:
    with patch.object(color, "BACKGROUND", background):
        return np.asarray(to_rgb(image))


def over(colour: Array, alpha: Array, background: tuple[int, int, int]) -> Array:
    """Composite exactly in integer arithmetic and round to nearest."""
    opacity = alpha[..., np.newaxis].astype(np.int64)
    both = colour.astype(np.int64) * opacity + np.array(background) * (255 - opacity)
    return ((2 * both + 255) // 510).astype(np.uint8)


@each("mode", Image.MODES)
def test_every_mode_of_pillow_is_in_the_table(mode: str) -> None:
    rgb = to_rgb(Image.new(mode, SIZE))
    assert (rgb.mode, rgb.size) == ("RGB", SIZE)
    grey = to_grey(Image.new(mode, SIZE))
    assert (grey.mode, grey.size) == ("L", SIZE)


@each("mode", ["1", "L", "P", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"])
def test_plain_modes_are_equal_to_pillows_convert(mode: str) -> None:
    image = Image.fromarray(noise(3)).convert(mode)
    assert to_rgb(image).tobytes() == image.convert("RGB").tobytes()


def test_rgb_is_not_copied() -> None:
    image = Image.fromarray(noise(3))
    assert to_rgb(image) is image


@pytest.mark.parametrize("background", [WHITE, RED_BACKGROUND])
def test_alpha_is_composited_on_the_background(background: tuple[int, int, int]) -> None:
    pixels = noise(4)
    seen = over(pixels[..., :3], pixels[..., 3], background)
    assert np.array_equal(rgb(Image.fromarray(pixels), background), seen)
    grey = Image.fromarray(pixels[..., :2])
    assert grey.mode == "LA"
    seen = over(pixels[..., :1].repeat(3, axis=2), pixels[..., 1], background)
    assert np.array_equal(rgb(grey, background), seen)


@pytest.mark.parametrize(("mode", "premultiplied"), [("RGBA", "RGBa"), ("LA", "La")])
def test_premultiplied_alpha_is_within_one_of_straight_alpha(mode: str, premultiplied: str) -> None:
    image = Image.fromarray(noise(len(mode)))
    there = rgb(image.convert(premultiplied), RED_BACKGROUND)
    apart = there.astype(int) - rgb(image, RED_BACKGROUND)
    assert np.abs(apart).max() <= 1


def test_opaque_alpha_changes_nothing() -> None:
    pixels = noise(4)
    pixels[..., 3] = 255
    assert np.array_equal(rgb(Image.fromarray(pixels), RED_BACKGROUND), pixels[..., :3])


def palette_image(indices: Array, table: Array) -> Image.Image:
    image = Image.fromarray(indices)
    image.putpalette(table.tobytes())
    return image


def test_palette_with_one_transparent_colour() -> None:
    indices, table = noise(1, top=4), noise(3, size=(256, 1))[0]
    image = palette_image(indices, table)
    image.info["transparency"] = 2
    seen = np.where((indices == 2)[..., np.newaxis], RED_BACKGROUND, table[indices])
    assert np.array_equal(rgb(image, RED_BACKGROUND), seen)


def test_palette_with_an_alpha_for_each_colour() -> None:
    indices, table = noise(1), noise(3, size=(256, 1))[0]
    image = palette_image(indices, table)
    alphas = noise(1, size=(256, 1))[0]
    image.info["transparency"] = alphas.tobytes()
    assert np.array_equal(rgb(image, RED_BACKGROUND), over(table[indices], alphas[indices], RED_BACKGROUND))


def test_palette_with_an_alpha_band() -> None:
    pixels, table = noise(2), noise(3, size=(256, 1))[0]
    indices = palette_image(pixels[..., 0].copy(), table)
    image = Image.merge("PA", (indices, Image.fromarray(pixels[..., 1].copy())))
    seen = over(table[pixels[..., 0]], pixels[..., 1], RED_BACKGROUND)
    assert np.array_equal(rgb(image, RED_BACKGROUND), seen)


@pytest.mark.parametrize("mode", ["L", "RGB", "1"])
def test_a_transparent_colour_becomes_the_background(mode: str) -> None:
    image = Image.fromarray(noise(3)).convert(mode)
    key = image.getpixel((3, 2))
    image.info["transparency"] = key
    plain = np.asarray(image.convert("RGB"))
    hidden = (plain == plain[2, 3]).all(axis=2, keepdims=True)
    assert np.array_equal(rgb(image, RED_BACKGROUND), np.where(hidden, RED_BACKGROUND, plain))


def test_of_16_bits_the_upper_8_stay() -> None:
    ramp = np.arange(65_536, dtype=np.uint16).reshape(256, 256)
    wanted = ramp >> 8
    for mode, dtype in (("I;16", "<u2"), ("I;16L", "<u2"), ("I;16B", ">u2")):
        image = Image.frombytes(mode, (256, 256), ramp.astype(dtype).tobytes())
        assert np.array_equal(rgb(image), np.repeat(wanted[..., np.newaxis], 3, axis=2)), mode


def test_16_bits_with_a_transparent_colour() -> None:
    values = noise(1, np.uint16, 65_536)
    image = Image.fromarray(values)
    image.info["transparency"] = int(values[2, 3])
    wanted = np.repeat((values >> 8)[..., np.newaxis], 3, axis=2)
    wanted[2, 3] = RED_BACKGROUND
    assert np.array_equal(rgb(image, RED_BACKGROUND), wanted)


@pytest.mark.parametrize("top", [255, 65_535, 2**31 - 1])
def test_32_bit_integers_take_the_smallest_range_that_holds_them(top: int) -> None:
    values = np.linspace(-5, top, 35).astype(np.int32).reshape(5, 7)
    wanted = np.maximum(values.astype(np.int64), 0) * 256 // (top + 1)
    assert np.array_equal(np.asarray(to_grey(Image.fromarray(values))), wanted)


@pytest.mark.parametrize("top", [1, 255, 65_535])
def test_floats_take_the_smallest_range_that_holds_them(top: int) -> None:
    values = np.linspace(-0.5, top, 35).astype(np.float32).reshape(5, 7)
    values[0, :3] = np.nan, np.inf, -np.inf
    wanted = np.rint(np.maximum(values.astype(np.float64), 0)[1:] * 255 / top)
    grey = np.asarray(to_grey(Image.fromarray(values)))
    assert np.array_equal(grey[1:], wanted)
    assert grey[0, :3].tolist() == [0, 255, 0]


def test_floats_beyond_every_range_are_refused() -> None:
    with pytest.raises(ImageUndecodable, match="up to 70000; the ranges 0 to 1, 0 to 255 and 0 to 65535"):
        to_rgb(Image.fromarray(np.full((2, 2), 70_000, np.float32)))


@pytest.mark.parametrize("bands", [2, 4])
def test_large_images_are_converted_in_strips_without_a_seam(bands: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = noise(bands, size=(60, 45))
    whole = Image.fromarray(rgb(Image.fromarray(pixels), RED_BACKGROUND))
    monkeypatch.setattr(color, "STRIP_PIXELS", 60 * 7)
    assert Image.fromarray(rgb(Image.fromarray(pixels), RED_BACKGROUND)).tobytes() == whole.tobytes()


def test_range_of_a_large_image_is_that_of_all_its_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.full((45, 60), 200, np.int32)
    values[-1, -1] = 65_535
    monkeypatch.setattr(color, "STRIP_PIXELS", 60 * 7)
    assert np.asarray(to_grey(Image.fromarray(values)))[0, 0] == 0


def test_grey_of_colours_is_pillows_luma() -> None:
    image = Image.fromarray(noise(3))
    assert to_grey(image).tobytes() == image.convert("L").tobytes()
    grey = Image.fromarray(noise(1))
    assert to_grey(grey) is grey
