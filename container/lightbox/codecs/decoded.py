"""Tensors that a protocol has decoded, as the inputs of a signature."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.errors import InputMismatch
from lightbox.images.decode import is_image
from lightbox.model.spec import Array, SignatureSpec, image_input


def encoded_images(inputs: Mapping[str, Array], signature: SignatureSpec) -> tuple[bytes, ...]:
    """Return the images among the inputs: byte strings, shape [N] or [N, 1], for a model that takes images; else none.

    For a model of strings, which may be texts, they are images when each begins as one does. Raises InputMismatch for
    byte strings of another shape that a model of pixels gets, and for no image at all.
    """
    if inputs.keys() != signature.inputs.keys() or len(inputs) != 1:
        return ()
    ((name, array),) = inputs.items()
    wanted = image_input(signature)
    if wanted is None or not array.dtype.hasobject:
        return ()
    elements = tuple(array.ravel().tolist())
    in_a_row = array.size == (array.shape[0] if array.ndim else 1)
    if wanted.encoded:
        return elements if in_a_row and all(map(is_image, elements)) else ()
    if not array.size or not in_a_row:
        raise InputMismatch(f"input {name}: expected N encoded images of shape [N], got shape {list(array.shape)}")
    return elements
