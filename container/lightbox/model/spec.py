"""The inputs and outputs of a model's signature, and the check of inputs against it.

Names and dtypes are checked here. The model server checks shapes, except for ranks that would crash its process:
``RankGuard`` refuses those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol, TypeAlias

from lightbox.base.error_texts import shorten
from lightbox.base.errors import BadRequest, InputMismatch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lightbox.images.preparation import Picture, Placed

    Array = npt.NDArray[np.generic]
    """Any ndarray; strings are object arrays of bytes."""
else:
    Array = "ndarray"  # for annotations only: the supervisor reads specifications without numpy

ONE_INPUT = (
    "images are decoded for models of one input; for one of several make the tensors in preprocess of code/inference.py"
)
DEFAULT_SIGNATURE = "serving_default"
"""The default signature of a request."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: its dtype and shape.

    ``shape`` has None for an unknown dimension, and is None for an unknown rank. ``dtype`` is TensorFlow's name, such
    as ``float32`` or ``string``.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    has_own_rows: bool = False
    """Whether the open first dimension of an output counts other things than the rows of the inputs."""

    @property
    def is_string(self) -> bool:
        """Whether elements are byte strings."""
        return self.dtype == "string"

    def __str__(self) -> str:
        shape = "unknown rank" if self.shape is None else describe_shape(self.shape)
        return f"{self.name} ({self.dtype} {shape})"


@dataclass(frozen=True)
class SignatureSpec:
    """One signature of one version of a model, as the model server describes it."""

    model: str
    version: int
    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes of the exporter about the model, where the signature is that of its files."""

    @property
    def open_input(self) -> TensorSpec | None:
        """The one input, if the option ``layout`` would make it an image: its shape is open."""
        opened = next(iter(self.inputs.values())) if len(self.inputs) == 1 else None
        is_open = opened is not None and opened.shape in (None, (None,) * 4, (1, None, None, None))
        return opened if is_open and opened is not None and not opened.is_string else None

    @cached_property
    def image(self) -> ImageInput | None:
        """How the signature takes an image, None if it takes none.

        It takes one if it has a single input: a string tensor of rank 0 or 1, or pixels of [batch, height, width,
        channels] or [batch, channels, height, width] (or without batch) with 1 or 3 channels. If both are possible,
        channels are last, as in TensorFlow. [1, height, width] is not an image: usually it is a batch of something
        else.
        """
        return _image_input(self.inputs)

    @cached_property
    def fixed_rows(self) -> int | None:
        """The first dimension of all inputs, None if it is open or differs."""
        sizes = {(spec.shape or (None,))[0] for spec in self.inputs.values()}
        return sizes.pop() if len(sizes) == 1 else None

    def with_layout(self, layout: str | None) -> SignatureSpec:
        """Return the signature with an image in place of an input with an open shape; None changes nothing.

        ``layout`` is NHWC or NCHW; such an image has 3 channels.
        """
        opened = self.open_input
        if layout is None or opened is None:
            return self
        first = opened.shape[0] if opened.shape else None
        shape = (first, 3, None, None) if layout == "NCHW" else (first, None, None, 3)
        return replace(self, inputs={opened.name: replace(opened, shape=shape)})

    def check_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Raise InputMismatch unless names and dtypes are those of the signature."""
        if inputs.keys() != self.inputs.keys():
            raise InputMismatch(
                f"inputs: the signature {self.name!r} of the model {self.model!r} takes "
                f"{', '.join(str(spec) for spec in self.inputs.values())}; "
                f"got {_named(inputs) or 'none'}"
            )
        hint = f"; {ONE_INPUT}" if len(self.inputs) > 1 else ""
        for name, array in inputs.items():
            _check_dtype(self.inputs[name], array, hint)

    def misfit(self, inputs: Mapping[str, Array]) -> str | None:
        """Return a sentence about the first input with another shape than declared, else None."""
        return next((said for name, array in inputs.items() if (said := _misfit(self.inputs[name], array))), None)

    def rows_apart(self, inputs: Mapping[str, Array]) -> str | None:
        """Return a sentence about inputs whose open first dimensions differ, else None; some models take such."""
        opened = [name for name, spec in self.inputs.items() if spec.shape and spec.shape[0] is None]
        given = {name: inputs[name].shape for name in opened if inputs[name].ndim}
        if len({shape[0] for shape in given.values()}) <= 1:
            return None
        named = " and ".join(f"{name} {describe_shape(shape)}" for name, shape in given.items())
        return f"inputs: expected the same number of rows, got {named}"

    def rank_problem(self, ranks: Mapping[str, int], least: int) -> str | None:
        """Return a sentence about the first input with a lower rank than declared, else None.

        If none is declared, numbers need a rank of ``least``.
        """
        for name, rank in ranks.items():
            spec = self.inputs[name]
            if spec.shape is not None and rank < len(spec.shape):
                return f"input {name}: expected shape {describe_shape(spec.shape)}, got one of rank {rank}"
            if spec.shape is None and rank < least and not spec.is_string:
                return f"input {name}: expected a rank of at least {least}, got {rank}"
        return None

    def gives_rows(self, outputs: Iterable[str]) -> bool:
        """Return whether these outputs are declared to have a row for each row of the inputs.

        It does not depend on a call's sizes, so all responses of a model have one form.
        """
        rows = {spec.shape and spec.shape[:1] for spec in self.inputs.values()}
        declared = [self.outputs[name] for name in outputs if name in self.outputs]
        return None in rows or all(
            not spec.shape or (not spec.has_own_rows and spec.shape[:1] in {*rows, (1,)}) for spec in declared
        )

    def without_scalars(self) -> SignatureSpec:
        """Return the signature with unknown ranks in place of empty shapes."""

        def opened(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
            return {name: replace(spec, shape=spec.shape or None) for name, spec in specs.items()}

        return replace(self, inputs=opened(self.inputs), outputs=opened(self.outputs))

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raise BadRequest for a requested output that the signature does not have."""
        unknown = [name for name in names if name not in self.outputs]
        if unknown:
            raise BadRequest(
                f"outputs: the signature {self.name!r} of the model {self.model!r} gives "
                f"{', '.join(sorted(self.outputs))}; got {_named(unknown)}"
            )


def _named(names: Iterable[str]) -> str:
    """Return a caller's names, shortened for an error."""
    return shorten(", ".join(sorted(names)), 60)


def _check_dtype(spec: TensorSpec, array: Array, hint: str) -> None:
    came = _dtype_name(array.dtype)
    if came != spec.dtype:
        more = hint if array.dtype.hasobject else ""
        raise InputMismatch(f"input {spec.name}: expected dtype {spec.dtype}, got {came}{more}")


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[np.generic]) -> str:
    return "string" if dtype.hasobject else dtype.name


def _misfit(spec: TensorSpec, array: Array) -> str | None:
    if spec.shape is None or (
        len(spec.shape) == array.ndim
        and all(want is None or want == have for want, have in zip(spec.shape, array.shape, strict=True))
    ):
        return None
    return f"input {spec.name}: expected shape {describe_shape(spec.shape)}, got {describe_shape(array.shape)}"


def describe_shape(shape: Sequence[int | None]) -> str:
    """Return a shape in TensorFlow's form, with -1 for an unknown dimension: ``[-1,224,224,3]``."""
    return "[" + ",".join("-1" if size is None else str(size) for size in shape) + "]"


@dataclass(frozen=True)
class ImageInput:
    """The form of a model's image input.

    ``encoded``: the original bytes, for a string tensor. Otherwise pixels of ``dtype``, height x width x channels, or
    channels x height x width if ``channels_first``; height and width are None if the signature leaves them open.
    ``batched``: whether the tensor has a leading batch dimension.
    """

    name: str
    encoded: bool
    batched: bool
    dtype: str
    height: int | None = None
    width: int | None = None
    channels: int = 3
    channels_first: bool = False

    @property
    def sides(self) -> tuple[int, int]:
        """Axes of the tensor's height and width."""
        first = int(self.batched) + int(self.channels_first)
        return first, first + 1


PIXEL_DTYPES = frozenset({"uint8", "int32", "int64", "float16", "float32", "float64"})


def _image_input(inputs: Mapping[str, TensorSpec]) -> ImageInput | None:
    if len(inputs) != 1:
        return None
    (spec,) = inputs.values()
    if spec.is_string:
        rank = 1 if spec.shape is None else len(spec.shape)
        return ImageInput(spec.name, True, rank == 1, spec.dtype) if rank <= 1 else None
    if spec.shape is None or len(spec.shape) not in (3, 4) or spec.dtype not in PIXEL_DTYPES:
        return None
    *_, first, second, last = spec.shape
    pixels = ImageInput(spec.name, False, len(spec.shape) == 4, spec.dtype)
    if last in (1, 3):
        return replace(pixels, height=first, width=second, channels=last)
    if first == 3 or (first == 1 and len(spec.shape) == 4):
        return replace(pixels, height=second, width=last, channels=first, channels_first=True)
    return None


def refused_pixels(signature: SignatureSpec) -> str | None:
    """Return why a signature takes no image though its one input has the shape of one; None for others."""
    if len(signature.inputs) != 1:
        return None
    (spec,) = signature.inputs.values()
    alike = replace(signature, inputs={spec.name: replace(spec, dtype="float32")})
    if spec.is_string or signature.image is not None or alike.image is None:
        return None
    known = ", ".join(sorted(PIXEL_DTYPES))
    return f"pixels become {known}, but the input {spec.name} is {spec.dtype}; make it in preprocess of inference.py"


class Method(Enum):
    """TensorFlow Serving's three REST verbs."""

    PREDICT = "predict"
    CLASSIFY = "classify"
    REGRESS = "regress"


class Layout(Enum):
    """The layout of a response, which follows its request's."""

    BATCH = "a row for each row of the input; by name where an output has no such rows"
    INSTANCES = "TensorFlow Serving's row form: a row for each one that all outputs share"
    COLUMNS = "TensorFlow Serving's columnar form: whole outputs"
    RESULTS = "TensorFlow Serving's response to classify and regress"


@dataclass(frozen=True)
class ModelCall:
    """One predict call of one version of a model.

    ``outputs`` are the wanted ones; empty means those of the options, and all for a transport. ``images`` are the
    encoded images of the inputs, in the order of the batch.
    """

    signature: SignatureSpec
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()
    layout: Layout = Layout.BATCH
    images: tuple[bytes, ...] = ()
    placed: tuple[Placed, ...] = ()
    """The place of each image in the input, in the order of the batch; empty for numbers."""
    picture: Picture | None = None
    """The one image of the inputs, for a response that shows it."""
    results: Callable[[Mapping[str, Array]], Prediction] | None = None
    """Checks and returns the results of classify and regress, in place of the raw outputs."""

    def predicted(self, outputs: Mapping[str, Array]) -> Prediction:
        """Return the model's outputs in the layout of this call. Raises as ``results`` does."""
        if self.results is not None:
            return self.results(outputs)
        batch = _shared_rows(self.inputs) if self.signature.gives_rows(outputs) else None
        return Prediction(outputs, self.layout, batch)


Mark: TypeAlias = "Callable[[int, int, int, npt.NDArray[np.bool_]], None]"
"""Gets a class, and a part of a mask: left, top and pixels [columns, rows] in the image."""


class Ranked(Protocol):
    """Makes the JSON text of each row; ``mark`` gets the masks of objects, which then are in no row."""

    def __call__(self, mark: Mark | None = None) -> Sequence[bytes] | None:
        """Return the rows; None if the outputs have none."""
        ...


@dataclass(frozen=True)
class Prediction:
    """A model's outputs by name; ``batch`` is the first dimension of all inputs, None if they share none, or if the
    outputs have other rows."""

    outputs: Mapping[str, Array]
    layout: Layout = Layout.BATCH
    batch: int | None = None
    ranked: Ranked | None = None
    """Makes the rows for ``labels`` and ``top_k`` as JSON text; None if neither is set."""
    lines_as_document: bool = False
    """Write ``application/jsonlines`` as the whole document on one line, as in AWS's container."""
    is_map: bool = False
    """Whether its one output is a map of each image in its size."""
    picture: Picture | None = None
    """The one image that it is of, for a response that shows it."""
    file_names: Sequence[str] = ()
    """The name of each image's file, where a form says them."""

    @property
    def by_row(self) -> bool:
        """Whether the outputs are written by row, as in all layouts except the columnar one."""
        rows = _shared_rows(self.outputs)
        if self.layout is Layout.BATCH:
            return rows is not None and rows == self.batch
        return self.layout is Layout.RESULTS or (self.layout is Layout.INSTANCES and bool(rows))


def _shared_rows(arrays: Mapping[str, Array]) -> int | None:
    """Return the first dimension that all arrays share, or None."""
    sizes = {array.shape[0] if array.ndim else None for array in arrays.values()}
    return sizes.pop() if len(sizes) == 1 else None
