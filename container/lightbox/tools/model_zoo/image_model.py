"""The central type of the zoo: a network on prepared pixels, and the parameters of its input forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Scaling = Literal["none", "unit", "tf"]
InputForm = Literal["float32", "uint8", "bytes"]

INPUT_NAMES: dict[InputForm, str] = {"float32": "input_tensor", "uint8": "image", "bytes": "image_bytes"}


@dataclass(frozen=True)
class ImageModel:
    """A network on prepared pixels: float32 [batch, height, width, 3], scaled as `scaling` says.

    `predict` maps such a tensor to outputs by name, inside a tf.function. `keep` is what the SavedModel
    must hold for it: tf.Variables, or a loaded SavedModel. `batch` is None where any batch size goes.
    `weights` says in one clause where the weights are from; `random` is True for random weights.
    `labels` are the names of its classes, if they are known.
    """

    predict: Callable[[Any], dict[str, Any]]
    keep: list[Any]
    height: int
    width: int
    scaling: Scaling
    weights: str
    random: bool = False
    labels: tuple[str, ...] = ()
    batch: int | None = None
    uint8_name: str = INPUT_NAMES["uint8"]

    def input_name(self, form: InputForm) -> str:
        """Return the signature's name for an input of this form."""
        return self.uint8_name if form == "uint8" else INPUT_NAMES[form]
