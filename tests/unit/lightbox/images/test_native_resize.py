"""The compiled resize is bit-equal to Pillow and refuses arguments that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lightbox.images.preparation import Filter, Fit, Fitting, PixelValues, Placement, Preparation, Scaling
from lightbox.images.resize import INTERPOLATING, NativeResize, Resizer, load_native
from lightbox.images.resize_library import INSTRUCTIONS, resize_line
from support.parameters import each

FILTERS = [
    Image.Resampling.BOX,
    Image.Resampling.BILINEAR,
    Image.Resampling.BICUBIC,
    Image.Resampling.LANCZOS,
]
sides = st.one_of(st.integers(1, 12), st.integers(1, 300))


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(np.random.default_rng(width * height).integers(0, 256, shape, dtype=np.uint8))


def empty(width: int, height: int, mode: str = "RGB", dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.empty((height, width, 3 if mode == "RGB" else 1), dtype)


@pytest.mark.extended
@settings(max_examples=250, deadline=None)
@given(
    st.data(),
    sides,
    sides,
    sides,
    sides,
    st.sampled_from(["RGB", "L"]),
    st.sampled_from(FILTERS),
    st.sampled_from(INSTRUCTIONS),
)
def test_the_bits_are_pillows(
    library: Path,
    data: st.DataObject,
    width: int,
    height: int,
    to_width: int,
    to_height: int,
    mode: str,
    by: Image.Resampling,
    at_most: str,
) -> None:
    image = noise(width, height, mode)
    whole = np.asarray(image.resize((to_width, to_height), by)).reshape(to_height, to_width, -1)
    (left, right), (top, bottom) = (
        sorted((data.draw(st.integers(0, side - 1)), side)) for side in (to_width, to_height)
    )
    right, bottom = data.draw(st.integers(left + 1, right)), data.draw(st.integers(top + 1, bottom))
    part = whole[top:bottom, left:right]
    out = empty(right - left, bottom - top, mode)
    native = NativeResize(library, at_most=at_most)
    assert native.resize(image, by, out, placement=Placement((to_width, to_height), -left, -top))
    np.testing.assert_array_equal(out, part)


@settings(max_examples=100, deadline=None)
@given(st.data(), sides, sides, sides, sides, st.sampled_from(["RGB", "L"]), st.sampled_from(INTERPOLATING))
def test_the_bits_are_those_of_the_same_arithmetic_in_numpy(
    library: Path, data: st.DataObject, width: int, height: int, to_width: int, to_height: int, mode: str, by: Filter
) -> None:
    image = noise(width, height, mode)
    left, top = data.draw(st.integers(0, to_width - 1)), data.draw(st.integers(0, to_height - 1))
    ours, numpys = (empty(to_width - left, to_height - top, mode, np.float32) for _ in range(2))
    placement = Placement((to_width, to_height), -left, -top)
    assert NativeResize(library).interpolate(image, by, ours, placement=placement)
    Resizer(1).fill(image, numpys, Preparation(by), placement, by_all_cores=False)
    np.testing.assert_array_equal(ours, numpys)


@each("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
@each("step", [1, -1])
def test_a_table_makes_float32_wherever_the_pixels_go(library: Path, order: tuple[int, int, int], step: int) -> None:
    memory = np.full(np.array([50, 66, 3])[list(np.argsort(order))], np.nan, np.float32)
    out = memory.transpose(order)[1:-1, 1:-1, ::step]
    table = np.random.default_rng(3).normal(size=(3, 256)).astype(np.float32)
    image = noise(200, 150)
    assert NativeResize(library).resize(image, FILTERS[2], out, table=table)
    pixels = np.asarray(image.resize((64, 48)))
    np.testing.assert_array_equal(out, np.stack([table[c][pixels[:, :, c]] for c in range(3)], axis=2))
    assert np.isnan(memory).sum() == memory.size - out.size


@each(
    "out",
    [
        empty(8, 8, "L"),
        empty(8, 8, dtype=np.float32),
        np.empty((8, 8), np.uint8),
        np.empty((0, 8, 3), np.uint8),
        np.broadcast_to(np.uint8(0), (8, 8, 3)),
    ],
)
def test_a_wrong_out_is_refused(library: Path, out: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"out|cannot resize"):
        NativeResize(library).resize(noise(20, 20), FILTERS[2], out)


@each(
    "placement",
    [
        Placement((9, 9), 1, 0),
        Placement((9, 9), 0, -2),
        Placement((7, 9)),
        Placement((0, 9)),
        Placement((9, 9), -(2**31), 0),
        Placement((2**31 - 1, 9), -(2**31 - 1), 0),
    ],
)
def test_a_part_that_is_not_in_the_image_is_refused(library: Path, placement: Placement) -> None:
    with pytest.raises(ValueError, match="cannot resize"):
        NativeResize(library).resize(noise(20, 20), FILTERS[2], empty(8, 8), placement=placement)


@pytest.mark.parametrize(
    "placement",
    [
        Placement((2**30, 2**30), -(2**29), -(2**29)),
        Placement((2**31 - 1, 9), -(2**31 - 9), 0),
        Placement((9, 2**31 - 1), 0, -(2**31 - 9)),
    ],
)
def test_a_part_of_a_huge_image_takes_no_more_memory_than_itself(library: Path, placement: Placement) -> None:
    out = empty(8, 8)
    native, image = NativeResize(library), Image.new("RGB", (20, 20), (1, 2, 3))
    assert native.resize(image, FILTERS[2], out, placement=placement)
    np.testing.assert_array_equal(out, np.broadcast_to(np.array([1, 2, 3], np.uint8), (8, 8, 3)))
    floats = np.empty((8, 8, 3), np.float32)
    for by in INTERPOLATING:
        assert native.interpolate(image, by, floats, placement=placement)
        np.testing.assert_array_equal(floats, out)


@pytest.mark.parametrize("shape", [(2, 256), (3, 255)])
def test_a_wrong_table_is_refused(library: Path, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="table has shape"):
        NativeResize(library).resize(
            noise(20, 20), FILTERS[2], empty(8, 8, dtype=np.float32), table=np.zeros(shape, np.float32)
        )


def test_other_images_and_filters_are_left_to_pillow(library: Path) -> None:
    native = NativeResize(library)
    assert not native.resize(Image.new("RGBA", (20, 20)), FILTERS[2], np.empty((8, 8, 4), np.uint8))
    assert not native.resize(noise(20, 20), Image.Resampling.NEAREST, empty(8, 8))


def test_pillow_resizes_without_a_usable_library(library: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    assert load_native(tmp_path / "missing.so") is None
    assert load_native(tmp_path / "broken.so") is None
    native = load_native(library)
    assert native is None or native.instructions in INSTRUCTIONS[1:]


def by_steps(image: Image.Image, by: Filter, placement: Placement, size: tuple[int, int], pad: int) -> Any:
    """Apply the options step by step with Pillow; return pixels [height, width, channels]."""
    whole, left, top = placement
    resized = image.resize(whole, Image.Resampling[by.name])
    canvas = Image.new(image.mode, size, (pad,) * len(image.getbands()))
    canvas.paste(resized, (left, top))
    return np.asarray(canvas).reshape(size[1], size[0], -1)


@each("mode", ["RGB", "L"])
@each("dtype", [np.uint8, np.float32, np.float64])
@each("by", [Filter.BICUBIC, Filter.BILINEAR, Filter.LANCZOS, Filter.BOX, Filter.NEAREST])
@each("fit", list(Fit))
@each(("size", "first"), [((56, 56), False), ((160, 120), True), ((9, 23), False)])
def test_every_fit_scaling_and_layout_is_the_same_as_pillow_step_by_step(
    library: Path, mode: str, dtype: Any, by: Filter, fit: Fit, size: tuple[int, int], first: bool
) -> None:
    image = noise(161, 120, mode)
    fitting = Fitting(fit, crop_pct=0.9)
    pixels = by_steps(image, by, fitting.place(image.size, size), size, 114)
    scalings = list(Scaling) if mode == "RGB" else [Scaling.NONE, Scaling.UNIT, Scaling.TF]
    mean = (0.1, 0.2, 0.3)[: pixels.shape[2]]
    for scaling in scalings if dtype != np.uint8 else [Scaling.NONE]:
        own = mean if scaling in (Scaling.UNIT, Scaling.NONE) and dtype != np.uint8 else None
        values = PixelValues(scaling, own, own, bgr=mode == "RGB" and scaling in (Scaling.CAFFE, Scaling.UNIT))
        expected = values.scaled(pixels[:, :, ::-1] if values.bgr else pixels).astype(dtype)
        for native in (NativeResize(library), None):
            memory = np.zeros((pixels.shape[2], *size[::-1]) if first else pixels.shape, dtype)
            out = memory.transpose(1, 2, 0) if first else memory
            wanted = Preparation(by, fitting, values, (114,))
            Resizer(2, native).fill(image, out, wanted, by_all_cores=native is not None)
            np.testing.assert_array_equal(out, expected)


def test_the_line_says_what_resizes(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    assert resize_line(tmp_path / "none.so") == "resize: Pillow, because the native resize is not compiled"
    assert "cannot be loaded" in resize_line(tmp_path / "broken.so")
    native = load_native(library)
    decoded = "; JPEGs are decoded by simplejpeg"
    found = f"native, with {native.instructions}{decoded}" if native else "Pillow, because the CPU has no AVX2"
    assert resize_line(library) == f"resize: {found}"
    monkeypatch.setattr("lightbox.images.resize_library.find_spec", lambda name: None)
    assert native is None or resize_line(library).endswith("by Pillow, because simplejpeg is not installed")
