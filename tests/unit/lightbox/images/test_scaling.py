"""Scaling is equal to Keras to the last bit, resizing to Pillow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from lightbox.images.resize import Scaling, resize, to_tensor

pytestmark = pytest.mark.extended


def every_value() -> Image.Image:
    """Each of the 256 values in each channel, beside different neighbours."""
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


@pytest.mark.parametrize("scaling", Scaling)
def test_scaling_is_bit_equal_to_keras(scaling: Scaling) -> None:
    tensor = to_tensor(every_value(), scaling, np.float32)
    wanted = keras_on(every_value(), scaling)
    assert tensor.shape == (16, 16, 3)
    assert tensor.dtype == np.float32
    assert tensor.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("scaling", Scaling)
def test_the_values_go_into_the_given_row_of_a_batch(scaling: Scaling) -> None:
    batch = np.full((3, 16, 16, 3), 7, np.float32)
    assert to_tensor(every_value(), scaling, np.float32, batch[1]).base is batch
    assert np.array_equal(batch[1], keras_on(every_value(), scaling))
    assert (batch[[0, 2]] == 7).all()


@pytest.mark.parametrize("scaling", Scaling)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_are_cast_after_float32_arithmetic(scaling: Scaling, dtype: type[np.floating]) -> None:
    wanted = keras_on(every_value(), scaling).astype(dtype)
    assert np.array_equal(to_tensor(every_value(), scaling, dtype), wanted)
    apart = np.empty((16, 3, 16), dtype).transpose(0, 2, 1)
    assert np.array_equal(to_tensor(every_value(), scaling, dtype, apart), wanted)


def test_an_out_array_that_is_not_contiguous_is_filled_all_the_same() -> None:
    apart = np.empty((16, 3, 16), np.float32).transpose(0, 2, 1)
    to_tensor(every_value(), Scaling.TORCH, np.float32, apart)
    assert np.array_equal(apart, keras_on(every_value(), Scaling.TORCH))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_integer_models_get_the_pixels(dtype: type[np.integer]) -> None:
    tensor = to_tensor(every_value(), Scaling.NONE, dtype)
    assert tensor.dtype == dtype
    assert np.array_equal(tensor, np.asarray(every_value()))
    assert tensor.flags.writeable


@pytest.mark.parametrize("scaling", [Scaling.NONE, Scaling.UNIT, Scaling.TF])
def test_grey_has_one_channel(scaling: Scaling) -> None:
    grey = every_value().convert("L")
    tensor = to_tensor(grey, scaling, np.float32)
    assert tensor.shape == (16, 16, 1)
    assert np.array_equal(tensor[..., 0], keras_on(grey, scaling))


@pytest.mark.parametrize("out", [np.empty((16, 16, 1), np.float32), np.empty((16, 16, 3), np.float64)])
def test_an_out_array_of_another_shape_or_dtype_is_an_error(out: npt.NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match="out has shape"):
        to_tensor(every_value(), Scaling.NONE, np.float32, out)


def test_scalings_have_kerass_names() -> None:
    assert [str(scaling) for scaling in Scaling] == ["none", "unit", "tf", "torch", "caffe"]
    assert Scaling("tf") is Scaling.TF


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(224, 224), (3, 40), (500, 2), (1, 1)])
def test_resize_is_pillows(mode: str, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    assert resize(image, size).tobytes() == image.resize(size).tobytes()


def test_an_image_of_the_right_size_is_not_copied() -> None:
    image = every_value()
    assert resize(image, (16, 16)) is image
