"""What Lightbox's API tells a user's code about a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightbox.images.originals import OriginalImages
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Request:
    """One request, as ``preprocess(request)`` and ``postprocess(outputs, request)`` get it."""

    body: bytes
    """The body as it came."""

    content_type: str
    """The Content-Type as it came, with its parameters; empty where there was none."""

    accept: str
    """The Accept header as it came; empty where there was none."""

    custom_attributes: Mapping[str, str]
    """The pairs of the header ``X-Amzn-SageMaker-Custom-Attributes``, those that Lightbox does not know too."""

    signature: SignatureSpec
    """What the model wants and gives: ``inputs`` and ``outputs`` by name, each with dtype and shape."""

    options: ModelOptions
    """The model's ``code/lightbox.json`` under the environment: scaling, image_size, outputs, labels, top_k."""

    original_images: OriginalImages
    """Where ``images`` and ``image_sizes`` come from."""

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return self.signature.model

    @property
    def model_version(self) -> int:
        """The version that answers."""
        return self.signature.version

    @property
    def images(self) -> list[Image]:
        """The request's images: Pillow images, mode RGB, upright, in their own size; decoded on first use.

        Raises ImageUndecodable (400) when the body is no image, TooLarge (413) beyond the limits: several are kept to
        LIGHTBOX_MAX_IMAGE_PIXELS together, for all are in memory. Raises DeadlineExceeded (504) when time runs out.
        """
        return self.original_images.images

    @property
    def image_sizes(self) -> list[tuple[int, int]]:
        """(width, height) of each image as it came, upright; no image is kept for it. Raises as one of ``images``."""
        return self.original_images.sizes

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's class names, from ``labels`` in ``code/lightbox.json``; empty where it has none."""
        return tuple(self.options.labels or ())

    def label(self, index: int) -> str:
        """Return the name of a class, its index as text where it has no name."""
        return self.labels[index] if 0 <= index < len(self.labels) else str(index)
