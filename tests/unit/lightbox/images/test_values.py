"""Scaled pixel values are bit-equal to Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from lightbox.images.preparation import PixelValues, Scaling
from lightbox.model.presets import PRESETS
from support.parameters import each

pytestmark = pytest.mark.extended


def every_value() -> Image.Image:
    """Return an image with each of the 256 values in each channel, in different combinations."""
    ramp = np.arange(256, dtype=np.uint8)
    return Image.fromarray(np.stack([ramp, np.roll(ramp, 85), ramp[::-1]], axis=-1).reshape(16, 16, 3))


def keras_on(image: Image.Image, scaling: Scaling) -> npt.NDArray[np.float32]:
    from keras.applications import densenet, mobilenet_v2, resnet50

    scale = {
        Scaling.NONE: lambda x: x,
        Scaling.UNIT: lambda x: x / np.float32(255),
        Scaling.TF: mobilenet_v2.preprocess_input,
        Scaling.TORCH: densenet.preprocess_input,
        Scaling.CAFFE: resnet50.preprocess_input,
    }
    result: npt.NDArray[np.float32] = scale[scaling](np.array(image, dtype=np.float32))
    return result


def in_keras_order(scaling: Scaling) -> PixelValues:
    return PixelValues(scaling, bgr=scaling is Scaling.CAFFE)


def written(image: Image.Image, values: PixelValues, dtype: Any = np.float32, out: Any = None) -> Any:
    """Return the tensor written for a grey or RGB image."""
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    out = np.empty(pixels.shape, dtype) if out is None else out
    values.write(pixels, out)
    return out


@each("scaling", Scaling)
def test_scaling_is_bit_equal_to_keras(scaling: Scaling) -> None:
    tensor = written(every_value(), in_keras_order(scaling))
    assert tensor.tobytes() == np.ascontiguousarray(keras_on(every_value(), scaling)).tobytes()


@each("scaling", Scaling)
@each("dtype", [np.float16, np.float64])
def test_other_floats_are_cast_after_float32_arithmetic(scaling: Scaling, dtype: type[np.floating]) -> None:
    wanted = keras_on(every_value(), scaling).astype(dtype)
    assert np.array_equal(written(every_value(), in_keras_order(scaling), dtype), wanted)
    apart = np.empty((16, 3, 16), dtype).transpose(0, 2, 1)
    assert np.array_equal(written(every_value(), in_keras_order(scaling), dtype, apart), wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_integer_models_get_the_pixels(dtype: type[np.integer]) -> None:
    assert np.array_equal(written(every_value(), PixelValues(), dtype), np.asarray(every_value()))


@each("scaling", [Scaling.NONE, Scaling.UNIT, Scaling.TF])
def test_grey_has_one_channel(scaling: Scaling) -> None:
    grey = every_value().convert("L")
    tensor = written(grey, PixelValues(scaling))
    assert tensor.shape == (16, 16, 1)
    assert np.array_equal(tensor[..., 0], keras_on(grey, scaling))


@pytest.mark.parametrize("scaling", [Scaling.NONE, Scaling.UNIT, Scaling.TF])
@each("bgr", [False, True])
def test_mean_and_std_come_after_the_scaling_in_the_models_order(scaling: Scaling, bgr: bool) -> None:
    mean, std = (0.1, 0.5, -2.0), (0.25, 3.0, 7.0)
    pixels = np.asarray(every_value())[:, :, :: -1 if bgr else 1]
    scaled = keras_on(Image.fromarray(np.ascontiguousarray(pixels)), scaling)
    expected = (scaled - np.array(mean, np.float32)) / np.array(std, np.float32)
    values = PixelValues(scaling, mean, std, bgr)
    assert np.array_equal(written(every_value(), values), expected)
    fractions = np.empty((16, 16, 3), np.float32)
    values.write(np.asarray(every_value(), np.float32), fractions)
    assert np.array_equal(fractions, expected)


def test_torch_is_unit_with_the_mean_and_deviation_of_imagenet() -> None:
    preset = PRESETS["torchvision"]
    own = PixelValues(Scaling(preset["scaling"]), preset["mean"], preset["std"])
    assert written(every_value(), own).tobytes() == written(every_value(), PixelValues(Scaling.TORCH)).tobytes()


def test_a_scalings_own_mean_goes_with_its_color() -> None:
    in_rgb = written(every_value(), PixelValues(Scaling.TORCH))
    assert np.array_equal(written(every_value(), PixelValues(Scaling.TORCH, bgr=True)), in_rgb[:, :, ::-1])


@pytest.mark.parametrize("color", [(114,), (1, 20, 240)])
@pytest.mark.parametrize("bgr", [False, True])
def test_padding_gets_the_values_of_its_color(color: tuple[int, ...], bgr: bool) -> None:
    values = PixelValues(Scaling.UNIT, (0.1, 0.2, 0.3), (0.5,), bgr)
    out = np.empty((2, 5, 3), np.float32)
    values.fill(out, color)
    full = np.broadcast_to(np.array(color, np.uint8), out.shape)
    assert np.array_equal(out, written(Image.fromarray(np.ascontiguousarray(full)), values))
