"""Maps: a class or a number for each pixel of an image, in the size of the image.

Each is resized as its library does: torch's filters, whose taps are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lightbox.base.errors import InputMismatch, ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.heads.form import Shape, described
from lightbox.heads.objects import Float32, Int64
from lightbox.images.preparation import Placed, Size
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ImageInput, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.deadline import check_deadline

if TYPE_CHECKING:
    import numpy.typing as npt

CLASSES, MODEL_API_CLASSES, ULTRALYTICS_DEPTH, OF_ANOMALIES = (
    "classes",
    "modelapi-classes",
    "ultralytics-depth",
    "anomaly",
)
OF_CLASSES = (CLASSES, MODEL_API_CLASSES)
BESIDE_ANOMALIES = ("pred_score", "pred_label", "pred_mask")
"""Outputs beside a map of anomalies."""
MIDDLE = 0.5
"""The threshold of anomalies, once they are normalized."""
_RANK, _WITH_CHANNELS = 3, 4
_MOST_CLASSES = 1 << 16
_VALUES_AT_ONCE = 1 << 21
_CUBIC = -0.75
"""The constant of torch's bicubic filter."""
_FILTERS = {"depth": "bicubic", ULTRALYTICS_DEPTH: "corners", OF_ANOMALIES: "bilinear"}
_BYTE = 256
_ONE = 2048
_DIGITS = 6
Item = TypeVar("Item")


class _Tap(NamedTuple):
    """The pixel of a map that each pixel of an image takes along an axis, and its share."""

    at: Int64
    share: Float32


def map_problem(options: ModelOptions, signature: SignatureSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    """Return why outputs are no map as the option ``map`` says; None if they can be one."""
    image = signature.image
    if image is None or image.encoded:
        return f"expected a model that takes pixels; this one takes {', '.join(map(str, signature.inputs.values()))}"
    if options.fit == "crop" and (options.image_size or (image.height and image.width)):
        return "expected fit 'stretch' or 'letterbox': of an image that is cut, no map has all"
    outputs = maps_in(outputs, options)
    spec = next(iter(outputs.values())) if len(outputs) == 1 else None
    wanted = "[batch, classes, height, width] or [batch, height, width]"
    if options.map not in OF_CLASSES:
        wanted = "[batch, height, width], or with a channel"
    if spec is None or spec.is_string or not _is_map(spec.shape, options, image):
        given = described({name: item.shape for name, item in outputs.items()})
        return f"expected one output of {wanted}; the model gives {given}; name one in outputs"
    classes = 2 if options.map == OF_ANOMALIES else _classes(spec.shape, options, image)
    if options.labels is not None and classes is not None and classes != len(options.labels):
        return (
            f"expected a label for each of the {classes} classes of the output {spec.name}, got {len(options.labels)}"
        )
    return None


def maps_in(outputs: Mapping[str, Item], options: ModelOptions) -> dict[str, Item]:
    """Return the outputs that may be the map."""
    beside = BESIDE_ANOMALIES if options.map == OF_ANOMALIES else ()
    return {name: item for name, item in outputs.items() if name not in beside}


def _is_map(shape: Shape, options: ModelOptions, image: ImageInput) -> bool:
    if shape is None or len(shape) == _RANK:
        return True
    if len(shape) != _WITH_CHANNELS:
        return False
    channels = shape[_axis(shape, options, image)]
    return channels is None or (channels > 1 if options.map in OF_CLASSES else channels == 1)


def _axis(shape: Sequence[int | None], options: ModelOptions, image: ImageInput) -> int:
    """Return the dimension of classes: the only one of their number, or that of the image's channels."""
    count = len(options.labels or ()) if options.map in OF_CLASSES else 1
    fitting = [axis for axis in (1, 3) if shape[axis] == count]
    return fitting[0] if len(fitting) == 1 else 1 if image.channels_first else 3


def _classes(shape: Shape, options: ModelOptions, image: ImageInput) -> int | None:
    has_channels = options.map in OF_CLASSES and shape is not None and len(shape) == _WITH_CHANNELS
    return shape[_axis(shape, options, image)] if has_channels and shape is not None else None


def placed_maps(outputs: Mapping[str, Array], options: ModelOptions, call: ModelCall) -> dict[str, Array] | None:
    """Return the map of each image of a call in its size, as one output; None for outputs that are no map.

    Classes are uint8, or uint16 if there are more than 256. Raises InputMismatch for images of several sizes.
    """
    if options.map is None:
        return None
    chosen = {name: call.signature.outputs[name] for name in outputs if name in call.signature.outputs}
    image = call.signature.image
    if len(chosen) != len(outputs) or image is None or map_problem(options, call.signature, chosen) is not None:
        return None
    ((name, values),) = maps_in(outputs, options).items()
    if values.dtype.kind not in "biuf" or len(values) != len(call.placed):
        raise ModelFailed(f"map: expected numbers for {len(call.placed)} images, got {values.dtype} of {values.shape}")
    if problem := map_problem(options, call.signature, {name: TensorSpec(name, values.dtype.name, values.shape)}):
        raise ModelFailed(f"map: {problem}")
    sizes = {placed.size for placed in call.placed}
    if len(sizes) > 1:
        named = " and ".join(sorted(f"{width}x{height}" for width, height in sizes))
        raise InputMismatch(f"map: expected images of one size in a request, got {named}; send each by itself")
    if options.map == OF_ANOMALIES:
        values = normal(values, options, options.thresholds[1] if options.thresholds else MIDDLE)
    return {name: placed_in_images(values, options, call)}


def normal(values: Array, options: ModelOptions, threshold: float) -> Array:
    """Return anomalies from 0 to 1 with the threshold in the middle; as they are without ``thresholds``."""
    if options.thresholds is None:
        return values
    return ((values.astype(np.float32) - threshold) / options.thresholds[2] + MIDDLE).clip(0, 1)


def placed_in_images(values: Array, options: ModelOptions, call: ModelCall, are_masks: bool = False) -> Array:
    """Return the map of each image in its size; all have one. Masks, of 0 and 1, are rounded as OpenCV does."""
    image = call.signature.image
    assert image is not None, "maps are of images"
    if values.ndim == _WITH_CHANNELS:
        values = np.moveaxis(values, _axis(values.shape, options, image), 1)
        values = values if options.map in OF_CLASSES else values[:, 0]
    shape = call.inputs[image.name].shape
    height, width = (shape[side] for side in image.sides)
    pairs = zip(values, call.placed, strict=True)
    return np.stack([_placed(one, options, (width, height), placed, are_masks) for one, placed in pairs])


def _placed(values: Array, options: ModelOptions, size: Size, placed: Placed, is_mask: bool) -> Array:
    """Return the map of one image, of [classes, height, width] or [height, width] over an input of a ``size``."""
    width, height = placed.size
    if options.map not in OF_CLASSES:
        kind = _FILTERS[str(options.map)]
        found = _part(values.astype(np.float32), size, placed, kind)
        resized = _resized_by_opencv if is_mask else _resized
        return resized(found, _taps(kind, found.shape[-2], height), _taps(kind, found.shape[-1], width))
    if options.map == MODEL_API_CLASSES and values.ndim == _RANK:
        values = _best(values.astype(np.float32, copy=False))
    if values.ndim == _RANK - 1:
        kind = "nearest" if options.map == CLASSES else "opencv-nearest"
        numbers = np.nan_to_num(values).clip(0, _MOST_CLASSES - 1).astype(np.uint16)
        found = _part(numbers, size, placed, kind)
        (row,), (column,) = _taps(kind, len(found), height), _taps(kind, found.shape[1], width)
        return _narrow(found[row.at[:, None], column.at])
    found = _part(values.astype(np.float32, copy=False), size, placed, "bilinear")
    down, across = _taps("bilinear", found.shape[-2], height), _taps("bilinear", found.shape[-1], width)
    best = np.zeros((height, width), np.uint16)
    step = max(1, _VALUES_AT_ONCE // (len(found) * width))
    for at in range(0, height, step):
        check_deadline()
        taps = [_Tap(tap.at[at : at + step], tap.share[at : at + step]) for tap in down]
        first, last = min(int(tap.at.min()) for tap in taps), max(int(tap.at.max()) for tap in taps)
        rows = found[:, first : last + 1]
        best[at : at + step] = _best(_resized(rows, [tap._replace(at=tap.at - first) for tap in taps], across))
    return _narrow(best)


def _best(values: Float32) -> npt.NDArray[np.uint16]:
    """Return the class of the largest of [classes, height, width]: faster than ``argmax`` along the first axis."""
    largest, best = values[0].copy(), np.zeros(values.shape[1:], np.uint16)
    for number in range(1, len(values)):
        better = values[number] > largest
        np.copyto(largest, values[number], where=better)
        best[better] = number
    return best


def _narrow(numbers: npt.NDArray[np.uint16]) -> Array:
    return numbers.astype(np.uint8) if not numbers.size or numbers.max() < _BYTE else numbers


def _part(values: npt.NDArray[Any], size: Size, placed: Placed, kind: str) -> npt.NDArray[Any]:
    """Return the part of a map that the image covers.

    Of one with padding the map first gets the input's size, where the padding has whole pixels, as in Ultralytics.
    """
    (width, height), left, top = placed.placement
    if ((width, height), left, top) == (size, 0, 0):
        return values
    if values.shape[:-3:-1] != size:
        down, across = _taps(kind, values.shape[-2], size[1]), _taps(kind, values.shape[-1], size[0])
        values = _resized(values, down, across).astype(values.dtype, copy=False)
    return values[..., top : top + height, left : left + width]


def _resized(values: npt.NDArray[Any], down: Sequence[_Tap], across: Sequence[_Tap]) -> Float32:
    wide: Float32 = reduce(np.add, (values[..., tap.at] * tap.share for tap in across))
    return reduce(np.add, (wide[..., tap.at, :] * tap.share[:, None] for tap in down))


def _resized_by_opencv(values: Float32, down: Sequence[_Tap], across: Sequence[_Tap]) -> npt.NDArray[np.int32]:
    """Return whole numbers by weights of 11 bits, whose products lose their last bits, as ``cv2.resize`` of bytes."""
    numbers = np.rint(values).astype(np.int32)
    wide = reduce(np.add, (numbers[..., tap.at] * _whole(tap.share) for tap in across)) >> 4
    tall = reduce(np.add, (wide[..., tap.at, :] * _whole(tap.share)[:, None] >> 16 for tap in down))
    rounded: npt.NDArray[np.int32] = (tall + 2) >> 2
    return rounded


def _whole(shares: Float32) -> npt.NDArray[np.int32]:
    return np.rint(shares * _ONE).astype(np.int32)


def _taps(kind: str, there: int, here: int) -> list[_Tap]:
    """Return the taps from ``there`` pixels to ``here`` along an axis."""
    pixels = np.arange(here)
    if kind.endswith("nearest"):
        scale = np.float32(there / here) if kind == "nearest" else 1 / (here / there)  # OpenCV divides twice
        at = np.floor(pixels * scale).astype(np.int64).clip(0, there - 1)
        return [_Tap(at, np.ones(here, np.float32))]
    places = (pixels + 0.5) * (there / here) - 0.5
    if kind == "corners":
        places = pixels * ((there - 1) / max(1, here - 1))
    if kind != "bicubic":
        places = places.clip(0, None)
    lower = np.floor(places).astype(np.int64)
    rest = (places - lower).astype(np.float32)
    shares = {0: 1 - rest, 1: rest} if kind != "bicubic" else {step: _cubic(abs(rest - step)) for step in (-1, 0, 1, 2)}
    return [_Tap((lower + step).clip(0, there - 1), share.astype(np.float32)) for step, share in shares.items()]


def _cubic(far: Float32) -> Float32:
    near = (_CUBIC + 2) * far**3 - (_CUBIC + 3) * far**2 + 1
    beyond = _CUBIC * (far**3 - 5 * far**2 + 8 * far - 4)
    return np.where(far <= 1, near, beyond)


class Area(NamedTuple):
    """A class of a map, its share of the pixels, and where it is: run lengths as COCO counts them."""

    number: int
    share: float
    lengths: Int64


def areas_of(numbers: npt.NDArray[Any]) -> Iterator[Area]:
    """Yield the classes of a map, the largest first."""
    flat = np.ascontiguousarray(numbers.T).reshape(-1)
    starts = np.append(0, np.flatnonzero(flat[1:] != flat[:-1]) + 1)
    ends, classes = np.append(starts[1:], flat.size), flat[starts]
    counts = np.bincount(flat)
    for number in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].tolist():
        check_deadline()
        own = classes == number
        bounds = np.stack([starts[own], ends[own]], axis=1).reshape(-1)
        lengths = np.diff(bounds, prepend=0, append=flat.size)
        lengths = lengths if lengths[-1] else lengths[:-1]
        yield Area(number, round(int(counts[number]) / flat.size, _DIGITS), lengths)
