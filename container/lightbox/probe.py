"""One predict on made-up input: whether a model answers at all, and a warm start for the first caller."""

from __future__ import annotations

import base64

import numpy as np

from lightbox.errors import DeadlineExceeded, LightboxError, ModelNotFound, Unavailable
from lightbox.model_spec import Array, SignatureSpec, TensorSpec, image_input
from lightbox.signatures import Signatures
from lightbox.telemetry.clock import RequestClock
from lightbox.transports.base import PredictCall, Transport

OPEN_SIDE = 32
"""Height and width of a made-up image where the signature leaves them open."""

GREY_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR42mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg=="
)


def probe(model: str, transport: Transport, signatures: Signatures, clock: RequestClock) -> None:
    """Predict once; return when the model server answered for the model, even if the model refused the input.

    Raises Unavailable, DeadlineExceeded or ModelNotFound when it did not.
    """
    try:
        signature = signatures.get(transport, model, None, None, clock)
        transport.predict(PredictCall(signature, made_up_inputs(signature)), clock)
    except (Unavailable, DeadlineExceeded, ModelNotFound):
        raise
    except LightboxError:
        return


def made_up_inputs(signature: SignatureSpec) -> dict[str, Array]:
    """Return zeros of the signature's shapes, one for each open dimension; a small image for a string tensor."""
    picture = image_input(signature)
    sides = {1, 2} if picture is not None and not picture.encoded and picture.batched else set()
    return {name: _made_up(spec, sides) for name, spec in signature.inputs.items()}


def _made_up(spec: TensorSpec, sides: set[int]) -> Array:
    shape = tuple(
        size if size is not None else (OPEN_SIDE if axis in sides else 1)
        for axis, size in enumerate(spec.shape or (1,))
    )
    if spec.is_string:
        texts = np.empty(shape, object)
        texts[...] = GREY_PNG
        return texts
    return np.zeros(shape, spec.dtype if spec.dtype != "bfloat16" else "float32")
