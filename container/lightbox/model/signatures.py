"""Signatures as the model server describes them, remembered for a moment.

A request is checked against the signature of one version and sent to that very version, so that a
version which appears in between never gets a tensor that was checked against another. Who names no
version gets the first of those that answer (``Catalogue.versions``) or, where that tells none, the model server's
newest, and ``FRESH_SECONDS`` is how fast a new one is noticed.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np

from lightbox.errors import DeadlineExceeded, LightboxError, ModelNotFound, Unavailable, UnknownSignature
from lightbox.model.spec import Array, SignatureSpec, TensorSpec, image_input
from lightbox.request_context import RequestContext
from lightbox.transports.base import DEFAULT_SIGNATURE, PredictCall, Transport

FRESH_SECONDS = 1.0
MAX_REMEMBERED = 1000

Result = TypeVar("Result")
_Key = tuple[str, int | None, str]
OPEN_SIDE = 32
"""Height and width of a made-up image where the signature leaves them open."""

GREY_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR42mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg=="
)


class Signatures:
    """Looks signatures up; safe to use from several threads.

    ``versions`` tells which versions of a model answer requests that name none, see Catalogue.versions.
    """

    def __init__(self, versions: Callable[[str], Sequence[int]] = lambda model: ()) -> None:
        self._versions = versions
        self._lock = threading.Lock()
        self._known: dict[_Key, tuple[float, SignatureSpec]] = {}

    def get(
        self, transport: Transport, model: str, version: int | None, name: str | None, context: RequestContext
    ) -> SignatureSpec:
        """Return a signature, not older than ``FRESH_SECONDS`` for the newest version. Raises as Transport does.

        Without a name it is serving_default, or the model's only one: TF Hub's models call theirs default. Of several
        versions that answer it is that of the first which the model server has.
        """
        answering: Sequence[int | None] = [version] if version is not None else self._versions(model)
        first, *others = answering or [None]
        try:
            return self._of_version(transport, model, first, name, context)
        except ModelNotFound:
            for other in others:
                with suppress(ModelNotFound):
                    return self._of_version(transport, model, other, name, context)
            raise

    def _of_version(
        self, transport: Transport, model: str, version: int | None, name: str | None, context: RequestContext
    ) -> SignatureSpec:
        key = (model, version, name or "")
        with self._lock:
            known = self._known.get(key)
        if known and time.monotonic() - known[0] < FRESH_SECONDS:
            return known[1]
        with context.stage("signature"):
            try:
                spec = transport.signature(model, version, name or DEFAULT_SIGNATURE, context)
            except UnknownSignature as error:
                if name or len(error.known) != 1:
                    raise
                spec = transport.signature(model, error.version, error.known[0], context)
        with self._lock:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = (time.monotonic(), spec)
        return spec

    def on_newest(self, model: str, version: int | None, attempt: Callable[[], Result]) -> Result:
        """Return what ``attempt`` returns.

        The version that answered may just have been replaced: unless one was named, ModelNotFound makes us look
        and try once more.
        """
        try:
            return attempt()
        except ModelNotFound:
            if version is not None:
                raise
            self.forget(model)
            return attempt()

    def forget(self, model: str) -> None:
        """Forget a model's signatures: the next request looks them up."""
        with self._lock:
            for key in [key for key in self._known if key[0] == model]:
                del self._known[key]


def probe(model: str, transport: Transport, signatures: Signatures, context: RequestContext) -> None:
    """Predict once; return when the model server answered for the model, even if the model refused the input.

    Raises Unavailable, DeadlineExceeded or ModelNotFound when it did not.
    """
    try:
        signature = signatures.get(transport, model, None, None, context)
        transport.predict(PredictCall(signature, made_up_inputs(signature)), context)
    except (Unavailable, DeadlineExceeded, ModelNotFound):
        raise
    except LightboxError:
        return


def probe_version(
    model: str, version: int, transport: Transport, signatures: Signatures, context: RequestContext
) -> None:
    """Have one version predict; return when it can take the place of the version that answers.

    Made-up inputs may be refused by a model that is well. So an error counts only where the version that answers has
    none, and a refusal of the inputs only where both take the same. Raises LightboxError when the version cannot.
    """
    try:
        signature = None
        signature = signatures.get(transport, model, version, None, context)
        transport.predict(PredictCall(signature, made_up_inputs(signature)), context)
    except (Unavailable, DeadlineExceeded, ModelNotFound):
        raise
    except LightboxError as error:
        try:
            answering = signatures.get(transport, model, None, None, context)
            transport.predict(PredictCall(answering, made_up_inputs(answering)), context)
        except LightboxError:
            return
        if error.status < 500 and signature is not None and signature.inputs != answering.inputs:
            return
        raise


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
