"""Decode every file of tests/corpus and compare the result with the expectation stored beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import LightboxError
from lightbox.images.decode import decode_rgb, is_image, open_image
from support.parameters import each

CORPUS = Path(__file__).parents[3] / "corpus"


def files(folder: str) -> list[Path]:
    return sorted(path for path in (CORPUS / folder).iterdir() if path.suffix != ".json")


def expectation(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.with_name(path.name + ".json").read_text())
    return loaded


def expected_pixels(expect: dict[str, Any]) -> dict[tuple[int, int], bytes]:
    if "points" in expect:
        named = {tuple(map(int, at.split(","))): pixel for at, pixel in expect["points"].items()}
        return {(x, y): bytes.fromhex(pixel) for (x, y), pixel in named.items()}
    rows = [row.split() for row in expect["pixels"]]
    return {(x, y): bytes.fromhex(pixel) for y, row in enumerate(rows) for x, pixel in enumerate(row)}


@each("path", files("valid"))
def test_valid_file_gives_the_expected_pixels(path: Path) -> None:
    expect, body = expectation(path), path.read_bytes()
    assert is_image(body)
    assert open_image(body).format == expect["format"]
    image = decode_rgb(body)
    assert (image.mode, list(image.size)) == ("RGB", expect["size"])
    pixels = np.asarray(image)
    for (x, y), wanted in expected_pixels(expect).items():
        apart = np.abs(pixels[y, x].astype(int) - list(wanted)).max()
        assert apart <= expect["tolerance"], f"at {x},{y}: {pixels[y, x].tolist()}, expected {list(wanted)}"


@each("path", files("invalid"))
def test_invalid_file_is_refused(path: Path) -> None:
    expect = expectation(path)
    with pytest.raises(LightboxError) as raised:
        decode_rgb(path.read_bytes())
    error = raised.value
    assert (error.code, error.status) == (expect["code"], expect["status"])
    assert error.message.endswith(".")
    assert len(error.message) < 300


@each("path", files("invalid"))
def test_header_alone_never_raises_anything_else(path: Path) -> None:
    try:
        open_image(path.read_bytes())
    except LightboxError as error:
        assert error.code == expectation(path)["code"]


def test_too_large_is_known_from_the_header() -> None:
    large = [path for path in files("invalid") if expectation(path)["code"] == "too_large"]
    assert len(large) >= 7
    for path in large:
        with pytest.raises(LightboxError, match=r"\(LIGHTBOX_MAX_IMAGE_PIXELS\)|in one direction"):
            open_image(path.read_bytes())
