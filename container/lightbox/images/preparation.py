"""Preparation of images for a model: size and place in the input, resizing, and pixel values.

Sizes and offsets are rounded as in the training libraries: torchvision and timm for ``crop``, Ultralytics for
``letterbox``. The scalings are those of ``keras.applications``, with the same operations in the same order in float32:
the numbers are equal to the last bit.

    none    0..255, as they are
    unit    x / 255                                     0..1
    tf      x / 127.5 - 1                               -1..1        mobilenet_v2, inception_v3, xception, ...
    torch   (x / 255 - mean) / std, per channel         about -2..2  densenet
    caffe   BGR, x - mean, per channel                  -124..152    resnet50, vgg16, ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lightbox.base.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

Float32: TypeAlias = "npt.NDArray[np.float32]"
Size = tuple[int, int]
"""Width and height, in pixels."""


class Fit(StrEnum):
    """How an image of one shape fits into an input of another."""

    STRETCH = "stretch"
    CROP = "crop"
    LETTERBOX = "letterbox"


class Placement(NamedTuple):
    """An image resized to ``size``, with its upper left corner at ``left``, ``top`` of the input.

    Negative offsets crop the image; positive ones add padding.
    """

    size: Size
    left: int = 0
    top: int = 0


class Back(NamedTuple):
    """The pixels of an image for one of the input along both sides, and where its corner is taken for."""

    scale: float
    left: float
    top: float


@dataclass(frozen=True)
class Fitting:
    """A model's fit. ``shorter`` or ``crop_pct`` give the size of an image before its middle is cut out.

    ``shorter``: pixels of its shorter side. ``crop_pct``: the input's share of it along either side. ``longer``: the
    most pixels of its longer side, of an image that is not cut.
    """

    fit: Fit = Fit.STRETCH
    shorter: int | None = None
    crop_pct: float = 1.0
    from_lower: bool = False
    """Where half a pixel is left over, cut from the lower one; else from the even one, as torchvision does."""
    pads_end: bool = False
    """Whether all padding comes after the picture; else half of it."""
    longer: int | None = None
    rounds_down: bool = False
    """Whether a letterbox rounds the sides of an image to the lower pixel; else to the nearest."""
    multiple: int = 1
    """Its multiples are the sides of a whole image, rounded down."""
    returns: Literal["ratio", "sides", "unrounded"] = "ratio"
    """How places return from a letterbox: by its ratio before its sides are rounded to pixels, by that of each rounded
    side, as in Ultralytics, or as if its padding were not rounded either, as in YOLOv5."""

    def way_back(self, source: Size, target: Size, placement: Placement) -> Back | None:
        """Return how places return from a letterbox of ``target``; None if each side has a scale of its own."""
        if self.returns == "sides":
            return None
        scale = 1 / fitting_ratio(source, target)
        if self.returns == "ratio":
            return Back(scale, placement.left, placement.top)
        return Back(scale, *((whole - part / scale) / 2 for part, whole in zip(source, target, strict=True)))

    def place(self, source: Size, target: Size) -> Placement:
        """Return the placement of an image of one size in an input of another."""
        match self.fit:
            case Fit.STRETCH:
                return Placement(target)
            case Fit.CROP:
                covered = _covering(source, self._least(target))
                rests = [whole - part for whole, part in zip(covered, target, strict=True)]
                # round() takes the even one of two equally near numbers, as torchvision does.
                left, top = (-(rest // 2 if self.from_lower else round(rest / 2)) for rest in rests)
                return Placement(covered, left, top)
            case Fit.LETTERBOX:
                ratio, rounded = fitting_ratio(source, target), math.floor if self.rounds_down else round
                return self._padded((max(1, rounded(source[0] * ratio)), max(1, rounded(source[1] * ratio))), target)

    def uncut(self, source: Size) -> Placement:
        """Return the placement of a whole image in an input of its own proportions, rounded as in transformers."""
        assert self.shorter is not None
        low, high = sorted(source)
        exact = float(self.shorter)
        if self.longer is not None and high / low * exact > self.longer:
            exact = self.longer * low / high
        side = max(1, round(exact))
        width, height = source
        if side != low:
            across, down = int(exact * width / height), int(exact * height / width)
            width, height = (side, down) if width < height else (across, side)
        least = self.multiple
        return Placement((max(least, width - width % least), max(least, height - height % least)))

    def padded(self, source: Size, most: Size, stride: int) -> tuple[Size, Placement]:
        """Return the least input of whole strides in which an image has the size that it has in one of ``most``, and
        its place there."""
        width, height = size = self.place(source, most).size
        target = width + (most[0] - width) % stride, height + (most[1] - height) % stride
        return target, self._padded(size, target)

    def _padded(self, size: Size, target: Size) -> Placement:
        """For an odd number of padding rows or columns, the extra one comes after the picture."""
        left, top = (round((side - part) / 2 - 0.1) for side, part in zip(target, size, strict=True))
        return Placement(size) if self.pads_end else Placement(size, left, top)

    def _least(self, target: Size) -> Size:
        """Return the size that the image must cover before its middle is cut out."""
        if self.shorter is not None:
            return self.shorter, self.shorter
        return math.floor(target[0] / self.crop_pct), math.floor(target[1] / self.crop_pct)


def fitting_ratio(source: Size, target: Size) -> float:
    """Return the largest ratio by which an image fits into an input: that of a letterbox before it rounds its sides."""
    return min(target[0] / source[0], target[1] / source[1])


def _covering(source: Size, least: Size) -> Size:
    """Return the smallest size of an image that covers ``least``.

    The fraction of the longer side is truncated as in torchvision, or, for a ``least`` that is not a square, rounded as
    in timm.
    """
    width, height = source
    if least[0] == least[1]:
        side = least[0]
        return (side, side * height // width) if height >= width else (side * width // height, side)
    ratio = min(width / least[0], height / least[1])
    return round(width / ratio), round(height / ratio)


@dataclass(frozen=True)
class Placed:
    """Maps the input back to its image: the image's ``size`` and its place in the input.

    ``origin`` is the corner of a cropped part of a ``whole`` image, whose size is then ``size``. ``back`` is how
    places return from a letterbox by one scale.
    """

    size: Size
    placement: Placement
    origin: tuple[int, int] = (0, 0)
    whole: Size | None = None
    back: Back | None = None

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the image for one of the input, across and down."""
        if self.back is not None:
            return self.back.scale, self.back.scale
        return self.size[0] / self.placement.size[0], self.size[1] / self.placement.size[1]

    @property
    def area(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the image in the input, as places return from it."""
        (across, down), (_, left, top) = self.scale, self.back or self.placement
        return left, top, left + self.size[0] / across, top + self.size[1] / down

    def in_image(self, boxes: Float32) -> Float32:
        """Convert boxes [K, 4] (left, top, right, bottom) of the input to pixels of the image, clipped to it."""
        return self.points_in_image(boxes.reshape(-1, 2, 2), clipped=True).reshape(-1, 4)

    def points_in_image(self, points: Float32, clipped: bool = False) -> Float32:
        """Convert points [..., 2], x and y, of the input to pixels of the image."""
        there = (points.astype(np.float64) - (self.back or self.placement)[1:]) * self.scale
        found: Float32 = np.add(there.clip(0, self.size) if clipped else there, self.origin).astype(np.float32)
        return found


class Picture(NamedTuple):
    """A decoded image, in Pillow's form or the compiled resize's, and its corner in that of which it is a part."""

    pixels: Any
    size: Size
    origin: tuple[int, int] = (0, 0)


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CAFFE_MEAN = (123.68, 116.779, 103.939)


class Scaling(StrEnum):
    """Scalings of the pixel values 0..255, with Keras's names."""

    NONE = "none"
    UNIT = "unit"
    TF = "tf"
    TORCH = "torch"
    CAFFE = "caffe"


class _Steps(NamedTuple):
    """x / divisor - mean, by std, for the order RGB; None skips a step."""

    divisor: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def turned(self) -> _Steps:
        """Return the same steps for the order BGR."""
        return _Steps(self.divisor, self.mean and self.mean[::-1], self.std and self.std[::-1])


_STEPS = {
    Scaling.NONE: _Steps(),
    Scaling.UNIT: _Steps(255),
    Scaling.TF: _Steps(127.5, (1,)),
    Scaling.TORCH: _Steps(255, IMAGENET_MEAN, IMAGENET_STD),
    Scaling.CAFFE: _Steps(None, _CAFFE_MEAN),
}


@dataclass(frozen=True)
class PixelValues:
    """A model's pixel values. ``mean`` and ``std``, a number or one for each channel, apply after the scaling.

    They are in the model's order of channels, BGR if ``bgr``; a scaling's own numbers follow it.
    """

    scaling: Scaling = Scaling.NONE
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    bgr: bool = False

    def scaled(self, pixels: npt.NDArray[Any]) -> Float32:
        """Return pixels [..., channels] in the model's order as float32, a copy."""
        values = pixels.astype(np.float32)
        self.scale(values)
        return values

    def scale(self, values: Float32) -> None:
        """Scale pixels [..., channels] in the model's order in place."""
        own = _STEPS[self.scaling]
        for divisor, mean, std in (own.turned() if self.bgr else own, _Steps(None, self.mean, self.std)):
            if divisor is not None:
                values /= np.float32(divisor)
            if mean is not None:
                for channel in range(values.shape[-1]):  # several times faster than along a last axis of 3
                    values[..., channel] -= np.float32(mean[channel % len(mean)])
            if std is not None:
                for channel in range(values.shape[-1]):
                    values[..., channel] /= np.float32(std[channel % len(std)])

    def in_image_order(self, out: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return a view of a tensor [height, width, channels] with channels in the order RGB."""
        return out[:, :, ::-1] if self.bgr else out

    def fill(self, out: npt.NDArray[np.generic], color: tuple[int, ...]) -> None:
        """Fill a tensor [height, width, channels] with one color, 0..255 for each channel of the image."""
        there = self.in_image_order(out)
        for channel, values in enumerate(table_of(self, out.shape[2], out.dtype)):
            there[:, :, channel] = values[color[channel % len(color)]]

    def write(self, pixels: npt.NDArray[Any], out: npt.NDArray[np.generic]) -> None:
        """Write pixels [height, width, channels] in the order RGB, uint8 or fractions, into a tensor of that shape."""
        there = self.in_image_order(out)
        if pixels.dtype == np.uint8:
            for channel, values in enumerate(table_of(self, pixels.shape[2], out.dtype)):
                there[:, :, channel] = values[pixels[:, :, channel]]
        else:
            np.copyto(out, self.scaled(self.in_image_order(pixels)), casting="unsafe")


@lru_cache(maxsize=64)
def table_of(values: PixelValues, channels: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return [channels, 256], in the order RGB: the result of each value 0..255 in each channel, in ``dtype``."""
    levels = np.repeat(np.arange(256, dtype=np.uint8), channels).reshape(256, 1, channels)
    scaled = values.in_image_order(values.scaled(levels))
    table = np.ascontiguousarray(scaled.reshape(256, channels).T, dtype)
    table.flags.writeable = False
    return table


class Filter(StrEnum):
    """How an image is resized: Pillow's filters, or ``tf.image.resize``, which does not antialias.

    OpenCV's bilinear filter takes the same pixels as TensorFlow's, by weights of 11 bits; OpenVINO's rounds.
    """

    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    NEAREST = "nearest"
    LANCZOS = "lanczos"
    BOX = "box"
    TF_BILINEAR = "tf_bilinear"
    TF_NEAREST = "tf_nearest"
    OPENCV_BILINEAR = "opencv_bilinear"
    OPENVINO_BILINEAR = "openvino_bilinear"

    @property
    def averages(self) -> bool:
        """Whether each pixel averages the source pixels that it covers, so that a source of half the size is enough."""
        return self in (Filter.BICUBIC, Filter.BILINEAR, Filter.LANCZOS, Filter.BOX)


@dataclass(frozen=True)
class Preparation:
    """How images are prepared for a model.

    ``padding`` is a value of 0..255, or one for each channel of the image.
    """

    by: Filter = Filter.BICUBIC
    fitting: Fitting = field(default_factory=Fitting)
    values: PixelValues = field(default_factory=PixelValues)
    padding: tuple[int, ...] = (0,)
