"""What codecs share: the two ends of a prediction, in arrays, and the two ways of a codec.

A codec is a class for the media types of ``media_types``: it reads bodies of them, writes responses of the first of
them, or does both. ``codecs/__init__.py`` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol, runtime_checkable

from lightbox.codecs.media_type import ContentType
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.request_context import RequestContext


class Method(Enum):
    """What the model is asked for: TensorFlow Serving's three REST verbs."""

    PREDICT = "predict"
    CLASSIFY = "classify"
    REGRESS = "regress"


class Layout(Enum):
    """How a response is laid out, after the layout of its request."""

    BATCH = "a row for each row of the input; by name where an output has no such rows"
    INSTANCES = "TensorFlow Serving's row form: a row for each one that all outputs share"
    COLUMNS = "TensorFlow Serving's columnar form: whole outputs"
    RESULTS = "TensorFlow Serving's response to classify and regress"


@dataclass(frozen=True)
class DecodedRequest:
    """A request body as the model's inputs.

    ``outputs`` names the outputs that the method needs; empty for those that the options name.
    ``images`` holds the encoded images that the inputs were made of, in the order of the batch.
    """

    signature: SignatureSpec
    inputs: dict[str, Array]
    layout: Layout = Layout.BATCH
    outputs: tuple[str, ...] = ()
    images: tuple[bytes, ...] = ()

    def predicted(self, outputs: Mapping[str, Array]) -> Prediction:
        """Return the model's outputs in the layout of this request."""
        return Prediction(outputs, self.layout, _shared_rows(self.inputs))


@dataclass(frozen=True)
class Prediction:
    """A model's outputs by name; ``batch`` is the first dimension that all inputs have, None without one."""

    outputs: Mapping[str, Array]
    layout: Layout = Layout.BATCH
    batch: int | None = None
    ranked: Callable[[], Sequence[bytes] | None] | None = None
    """Makes the rows that ``labels`` and ``top_k`` ask for, as JSON text; None where nobody asks."""

    @property
    def by_row(self) -> bool:
        """Whether the outputs can be told row by row, which all but the columnar form want."""
        rows = _shared_rows(self.outputs)
        if self.layout is Layout.BATCH:
            return rows is not None and rows == self.batch
        return self.layout is Layout.RESULTS or (self.layout is Layout.INSTANCES and bool(rows))


def _shared_rows(arrays: Mapping[str, Array]) -> int | None:
    """Return the first dimension that all arrays share, or None."""
    sizes = {array.shape[0] if array.ndim else None for array in arrays.values()}
    return sizes.pop() if len(sizes) == 1 else None


@dataclass(frozen=True)
class Parsed:
    """A body that is read as far as it goes without its signature, whose name it may give.

    ``decode`` makes inputs of it; it times the stages decode and preprocess, and raises InputMismatch and the like.
    """

    decode: Callable[[SignatureSpec, ModelOptions], DecodedRequest]
    signature: str | None = None


@dataclass(frozen=True)
class Response:
    """A body, its content type, and what else its headers tell."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Reader(Protocol):
    """The way in of a codec. Raises MalformedBody, InputMismatch, TooLarge and the like."""

    media_types: ClassVar[tuple[str, ...]]

    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        """Read a body of one of the media types as far as it goes without the signature."""
        ...


@runtime_checkable
class Writer(Protocol):
    """The way out of a codec. ``single`` says that the media type holds one output only."""

    media_types: ClassVar[tuple[str, ...]]
    """The first is what responses are called."""
    single: ClassVar[bool]

    def encode(self, prediction: Prediction) -> Response:
        """Return the response; raise NotAcceptable when the media type cannot hold it."""
        ...


Codec = Reader | Writer
