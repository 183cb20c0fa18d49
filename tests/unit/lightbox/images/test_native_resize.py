"""The compiled resize makes Pillow's bits, and refuses what does not fit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lightbox.images.decode import decode_rgb
from lightbox.images.resize import Filter, NativeResize, Resizer, Scaling, load_native
from lightbox.images.resize_library import INSTRUCTIONS, resize_line

ROOT = Path(__file__).parents[4]
VALID = ROOT / "tests" / "corpus" / "valid"
FILTERS = [
    Image.Resampling.BOX,
    Image.Resampling.BILINEAR,
    Image.Resampling.BICUBIC,
    Image.Resampling.LANCZOS,
]
parts = st.tuples(st.floats(0, 0.9), st.floats(0.95, 1)) | st.tuples(st.floats(0, 0.4), st.floats(0.5, 1))
sides = st.one_of(st.integers(1, 12), st.integers(1, 300))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library; ``tests/slow/test_sanitized_resize.py`` adds flags."""
    path = tmp_path_factory.mktemp("native") / "resize.so"
    flags = os.environ.get("NATIVE_RESIZE_FLAGS", "").split()
    subprocess.run([ROOT / "scripts" / "build_native.sh", path, *flags], check=True)
    return path


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(np.random.default_rng(width * height).integers(0, 256, shape, dtype=np.uint8))


def empty(width: int, height: int, mode: str = "RGB", dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.empty((height, width, 3 if mode == "RGB" else 1), dtype)


@pytest.mark.extended
@settings(max_examples=700, deadline=None)
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
    image, box = noise(width, height, mode), None
    if data.draw(st.booleans()):
        left, right, top, bottom = (at * side for side in (width, height) for at in data.draw(parts))
        box = (left, top, right, bottom)
    out = empty(to_width, to_height, mode)
    assert NativeResize(library, at_most=at_most).resize(image, by, out, box=box)
    np.testing.assert_array_equal(out, np.asarray(image.resize((to_width, to_height), by, box)).reshape(out.shape))


@pytest.mark.extended
@pytest.mark.parametrize("path", sorted(VALID.glob("*.png")) + sorted(VALID.glob("*.jpg")), ids=lambda path: path.name)
def test_images_of_the_corpus(library: Path, path: Path) -> None:
    image = decode_rgb(path.read_bytes(), mode="RGB")
    for by in FILTERS:
        for width, height in ((224, 224), (5, 3)):
            out = empty(width, height)
            assert NativeResize(library).resize(image, by, out)
            np.testing.assert_array_equal(out, np.asarray(image.resize((width, height), by)))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_table_makes_float32(library: Path, reverse: bool) -> None:
    image, out = noise(200, 150), empty(64, 48, dtype=np.float32)
    table = np.random.default_rng(3).normal(size=(3, 256)).astype(np.float32)
    assert NativeResize(library).resize(image, FILTERS[2], out, table=table, reverse=reverse)
    pixels = np.asarray(image.resize((64, 48)))[:, :, :: -1 if reverse else 1]
    np.testing.assert_array_equal(out, np.stack([table[c][pixels[:, :, c]] for c in range(3)], axis=2))


@pytest.mark.parametrize(
    "out",
    [
        empty(8, 8, "L"),
        empty(8, 8, dtype=np.float32),
        np.empty((8, 8), np.uint8),
        empty(16, 8)[:, ::2],
        np.empty((0, 8, 3), np.uint8),
        np.broadcast_to(np.uint8(0), (8, 8, 3)),
    ],
)
def test_a_wrong_out_is_refused(library: Path, out: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"out|cannot resize"):
        NativeResize(library).resize(noise(20, 20), FILTERS[2], out)


@pytest.mark.parametrize(
    "box", [(-1, 0, 5, 5), (0, 0, 21, 5), (5, 5, 5, 9), (0, 9, 5, 2), (float("nan"), 0, 5, 5), (0, 0, float("inf"), 5)]
)
def test_a_wrong_box_is_refused(library: Path, box: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="cannot resize the box"):
        NativeResize(library).resize(noise(20, 20), FILTERS[2], empty(8, 8), box=box)


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


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("by", [Filter.BICUBIC, Filter.BILINEAR, Filter.LANCZOS, Filter.BOX, Filter.NEAREST])
@pytest.mark.parametrize("size", [(224, 224), (640, 480)])
def test_tensors_are_the_same_with_every_scaling(
    library: Path, mode: str, dtype: Any, by: Filter, size: tuple[int, int]
) -> None:
    image = noise(640, 480, mode)
    scalings = list(Scaling) if mode == "RGB" else [Scaling.NONE, Scaling.UNIT, Scaling.TF]
    for scaling in scalings if dtype != np.uint8 else [Scaling.NONE]:
        ours, pillows = empty(*size, mode, dtype), empty(*size, mode, dtype)
        Resizer(2, NativeResize(library)).fill(image, scaling, ours, by, by_all_cores=True)
        Resizer(2).fill(image, scaling, pillows, by, by_all_cores=False)
        np.testing.assert_array_equal(ours, pillows)


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
