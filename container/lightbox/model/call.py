"""One call of a model: what goes in and what comes out, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lightbox.model.spec import Array, SignatureSpec


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
class ModelCall:
    """One predict of one version of a model.

    ``outputs`` names those that are wanted; empty means those that the options name, and to a transport all.
    ``images`` holds the encoded images that the inputs were made of, in the order of the batch.
    """

    signature: SignatureSpec
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()
    layout: Layout = Layout.BATCH
    images: tuple[bytes, ...] = ()
    results: Callable[[Mapping[str, Array]], Prediction] | None = None
    """Checks and returns what classify and regress answer, in place of the outputs as they are."""

    def predicted(self, outputs: Mapping[str, Array]) -> Prediction:
        """Return the model's outputs in the layout of this call. Raises as ``results`` does."""
        if self.results is not None:
            return self.results(outputs)
        return Prediction(outputs, self.layout, _shared_rows(self.inputs))


@dataclass(frozen=True)
class Prediction:
    """A model's outputs by name; ``batch`` is the first dimension that all inputs have, None without one."""

    outputs: Mapping[str, Array]
    layout: Layout = Layout.BATCH
    batch: int | None = None
    ranked: Callable[[], Sequence[bytes] | None] | None = None
    """Makes the rows that ``labels`` and ``top_k`` ask for, as JSON text; None if nothing asks for them."""

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
