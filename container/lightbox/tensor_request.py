"""A request whose tensors have been decoded by its protocol, and the model's answer in tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightbox.model.spec import Array, SignatureSpec


@dataclass(frozen=True)
class TensorRequest:
    """Inputs by name, in the dtypes they came in; strings are object arrays of bytes.

    Byte strings for a model of pixels are encoded images. ``outputs`` names those that are wanted, empty for those
    that the model's options name. ``attributes`` are shown to the user's code, ``custom_attributes`` are they as text.
    """

    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    custom_attributes: str | None = None
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    transport: str | None = None


@dataclass(frozen=True)
class TensorAnswer:
    """The model's outputs in the order that was asked for, and the signature, thus the version, that gave them."""

    signature: SignatureSpec
    outputs: Mapping[str, Array]
