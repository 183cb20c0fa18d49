"""Tensors that a protocol has decoded, as the inputs of a signature."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.errors import InputMismatch
from lightbox.model_spec import Array, SignatureSpec, image_input


def encoded_images(inputs: Mapping[str, Array], signature: SignatureSpec) -> tuple[bytes, ...]:
    """Return the images among the inputs: byte strings, shape [N] or [N, 1], for a model of pixels; else none.

    Raises InputMismatch for byte strings of another shape, and for no image at all.
    """
    if inputs.keys() != signature.inputs.keys() or len(inputs) != 1:
        return ()
    ((name, array),) = inputs.items()
    wanted = image_input(signature)
    if wanted is None or wanted.encoded or not array.dtype.hasobject:
        return ()
    if array.size == 0 or array.size != (array.shape[0] if array.ndim else 1):
        raise InputMismatch(f"input {name}: expected N encoded images of shape [N], got shape {list(array.shape)}")
    return tuple(array.ravel().tolist())
