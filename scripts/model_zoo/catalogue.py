"""The models by name: what each takes, how it is scaled and where its weights can come from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model_zoo import digits, mobilenet_v2
from model_zoo.image_model import ImageModel, InputForm, Scaling

Weights = Literal["imagenet", "coco", "none"]


@dataclass(frozen=True)
class Entry:
    """One model: its builder and its defaults. The first of `weights` is the default."""

    build: Callable[[Weights, Path | None], ImageModel]
    scaling: Scaling
    form: InputForm
    weights: tuple[Weights, ...]


def build_mobilenet_v2(weights: Weights, archive: Path | None) -> ImageModel:
    """Build MobileNetV2 with ImageNet's weights or seeded ones."""
    return mobilenet_v2.image_model("imagenet" if weights == "imagenet" else "none")


def build_digits(weights: Weights, archive: Path | None) -> ImageModel:
    """Train the digits net: its weights are made here, whatever is asked."""
    return digits.image_model()


CATALOGUE = {
    "mobilenet_v2": Entry(build_mobilenet_v2, mobilenet_v2.SCALING, "float32", ("imagenet", "none")),
    "digits": Entry(build_digits, digits.SCALING, "float32", ("none",)),
}
