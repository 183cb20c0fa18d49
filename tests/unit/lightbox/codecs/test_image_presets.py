"""Presets give the pixels of the libraries they are named after, as recorded by tests/pixels/record.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from lightbox.base.request_context import RequestContext
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image import ImageCodec
from lightbox.images.resize import load_native
from lightbox.model.options import ModelOptions
from lightbox.model.presets import with_preset
from lightbox.model.spec import SignatureSpec, TensorSpec
from pixels.pictures import SIZES, png
from support.parameters import each
from support.patience import PATIENCE

FOLDER = Path(__file__).parents[3] / "pixels"
LIBRARIES = ("torchvision", "timm", "ultralytics")


class Case(NamedTuple):
    """An input's ``size`` and options, a picture, and the library's tensor for it."""

    name: str
    options: dict[str, Any]
    size: tuple[int, int]
    picture: str
    tensor: np.ndarray[Any, np.dtype[np.float32]]


def cases(library: str) -> Iterator[Case]:
    with np.load(FOLDER / f"{library}.npz") as file:
        about = json.loads(str(file["about"]))
        for number, case in enumerate(about["cases"]):
            size = case["size"][0], case["size"][1]
            yield Case(case["name"], case["options"], size, case["picture"], file[str(number)])


CASES = [case for library in LIBRARIES for case in cases(library)]


def prepared(case: Case) -> Any:
    shape = (1, 3, case.size[1], case.size[0])
    signature = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", shape)}, {})
    options = ModelOptions.model_validate(with_preset(case.options))
    call = ImageCodec(CodecOptions()).decode([png(case.picture)], signature, options, RequestContext(PATIENCE))
    return call.inputs["x"][0]


@pytest.mark.parametrize("by_pillow", [False, True], ids=["native", "pillow"])
@each("case", CASES)
def test_the_pixels_are_the_librarys(case: Case, by_pillow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_pillow:
        monkeypatch.setattr("lightbox.codecs.image.load_native", lambda: None)
    elif load_native() is None:
        pytest.skip("the native resize is not compiled")
    found = prepared(case)
    assert found.shape == case.tensor.shape
    np.testing.assert_array_equal(found, case.tensor)


@pytest.mark.extended
@each(("preset", "module"), [("keras-mobilenet", "mobilenet_v2"), ("keras-resnet", "resnet50")])
@each("picture", sorted(SIZES))
def test_the_pixels_are_keras(preset: str, module: str, picture: str, tmp_path: Path) -> None:
    import keras

    (tmp_path / "picture.png").write_bytes(png(picture))
    image = keras.utils.img_to_array(keras.utils.load_img(tmp_path / "picture.png", target_size=(48, 64)))
    expected = getattr(keras.applications, module).preprocess_input(image)
    case = Case("", {"preset": preset}, (64, 48), picture, expected)
    np.testing.assert_array_equal(prepared(case).transpose(1, 2, 0), expected)
