"""The models by name: how each is built and scaled, and where its weights can come from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lightbox.tools.model_zoo import digits, efficientdet_d1, efficientnet_lite0, mobilenet_v2
from lightbox.tools.model_zoo.image_model import ImageModel, InputForm, Scaling

Weights = Literal["imagenet", "coco", "none"]


@dataclass(frozen=True)
class Entry:
    """One model. The first of `weights` is the default; `remedy` says how to get real ones."""

    build: Callable[[Weights, Path | None], ImageModel]
    scaling: Scaling
    form: InputForm
    weights: tuple[Weights, ...]
    remedy: str = ""
    save_onnx: Callable[[InputForm, Path], object] | None = None
    """Writes it into a folder as an ONNX file, without TensorFlow."""
    labels: Callable[[], tuple[str, ...]] = tuple
    """Returns the names of its classes, for that file."""


def build_efficientdet_d1(weights: Weights, archive: Path | None) -> ImageModel:
    """Build the seeded detector, or take the published one."""
    if archive is None and weights == "none":
        return efficientdet_d1.image_model()
    from lightbox.tools.model_zoo import published

    return published.image_model(archive)


CATALOGUE = {
    "efficientnet_lite0": Entry(
        lambda *_: efficientnet_lite0.image_model(),
        efficientnet_lite0.SCALING,
        "uint8",
        ("imagenet",),
        save_onnx=efficientnet_lite0.save_onnx,
        labels=efficientnet_lite0.class_names,
    ),
    "mobilenet_v2": Entry(
        lambda weights, _: mobilenet_v2.image_model("imagenet" if weights == "imagenet" else "none"),
        mobilenet_v2.SCALING,
        "float32",
        ("imagenet", "none"),
        "Export it with --weights imagenet where the internet can be reached.",
    ),
    "efficientdet_d1": Entry(
        build_efficientdet_d1,
        efficientdet_d1.SCALING,
        "uint8",
        ("none", "coco"),
        "Export it with --weights coco where the internet can be reached, or with --archive FILE.",
    ),
    "digits": Entry(lambda *_: digits.image_model(digits.trained_model()), digits.SCALING, "float32", ("none",)),
}
