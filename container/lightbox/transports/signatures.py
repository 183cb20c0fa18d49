"""Signatures as the model server describes them, remembered for a moment.

A request is checked against the signature of one version and sent to that very version, so that a
version which appears in between never gets a tensor that was checked against another. Who names no
version gets the first of those that answer (``Catalogue.versions``) or, where that tells none, the model server's
newest, and ``FRESH_SECONDS`` is how fast a new one is noticed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lightbox.core.errors import (
    BadRequest,
    DeadlineExceeded,
    InputMismatch,
    LightboxError,
    ModelFailed,
    ModelNotFound,
    ModelUninitialized,
    Unavailable,
    UnknownSignature,
)
from lightbox.core.request_context import RequestContext
from lightbox.images.probe import GREY_PNG
from lightbox.model.catalogue import Catalogue
from lightbox.model.saved_model import WORST, Traits, traits
from lightbox.model.spec import DEFAULT_SIGNATURE, Array, ModelCall, SignatureSpec, TensorSpec, image_input
from lightbox.tfs_wire.ranks import HIGHEST
from lightbox.transports.base import Transport

FRESH_SECONDS = 1.0
MAX_REMEMBERED = 1000

Result = TypeVar("Result")
_Key = tuple[str, int | None, str]
OPEN_SIDE = 32
"""Height and width of a made-up image where the signature leaves them open."""


class Signatures:
    """Looks signatures up; safe to use from several threads.

    ``versions`` tells which versions of a model answer requests that name none, see Catalogue.versions; ``traits``
    those of a version's graph; ``layout`` what a model's options say of an image whose shape is open.
    """

    def __init__(
        self,
        versions: Callable[[str], Sequence[int]] = lambda model: (),
        traits: Callable[[str, int], Traits] = lambda model, version: WORST,
        layout: Callable[[str], str | None] = lambda model: None,
    ) -> None:
        self._versions = versions
        self._traits = traits
        self._layout = layout
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
        tensors = (*spec.inputs.values(), *spec.outputs.values())
        if any(tensor.shape == () for tensor in tensors) and self._traits(model, spec.version).has_no_scalars:
            spec = spec.without_scalars()
        spec = spec.with_layout(self._layout(model))
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


def traits_by(catalogue: Catalogue) -> Callable[[str, int], Traits]:
    """Return what tells the traits of a version of a model."""

    def find(model: str, version: int) -> Traits:
        try:
            return traits(catalogue.find(model).base_path, version)
        except LightboxError:  # it is not listed, yet the model server may have it
            return WORST

    return find


def layout_by(catalogue: Catalogue) -> Callable[[str], str | None]:
    """Return what tells the layout that a model's options name."""

    def find(model: str) -> str | None:
        with suppress(LightboxError):  # it is not listed, yet the model server may have it
            return catalogue.find(model).options.layout
        return None

    return find


@dataclass(frozen=True)
class RankGuard:
    """Refuses ranks that may end the model server's process: lower than declared, or than the graph's operations need
    where none is declared, and the graph has one of a few operations (docs/adr/087). All other shapes are the model
    server's to judge.

    One rule for all routes: those that make tensors ask ``check`` and ``predict``, those that send requests on as they
    came ``known``, ``may_end`` and ``check_ranks``. ``transport`` is asked for signatures.
    """

    signatures: Signatures
    transport: Transport
    traits: Callable[[str, int], Traits]

    def check(self, signature: SignatureSpec, inputs: Mapping[str, Array]) -> None:
        """Raise InputMismatch for inputs that are not the signature's by name and dtype, and as ``check_ranks``."""
        signature.check_inputs(inputs)
        self.check_ranks(signature, {name: array.ndim for name, array in inputs.items()})

    def check_ranks(self, signature: SignatureSpec, ranks: Mapping[str, int]) -> None:
        """Raise InputMismatch where inputs of these ranks may end the model server."""
        if signature.rank_problem(ranks, HIGHEST) is None:
            return
        least = self.traits(signature.model, signature.version).least_rank
        if least and (rank_problem := signature.rank_problem(ranks, least)):
            raise InputMismatch(rank_problem)

    def predict(self, transport: Transport, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        """Return the outputs; raise as Transport.predict, InputMismatch for a shape that the model does not take."""
        try:
            return transport.predict(call, context)
        except (BadRequest, ModelFailed) as error:
            if (misfit := call.signature.misfit(call.inputs)) is None:
                raise
            raise InputMismatch(f"{misfit}: {error.message}") from error

    def known(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec | None:
        """Return a signature, ``serving_default`` for "", of a model that need not be listed; None where there is none.

        Raises Unavailable and DeadlineExceeded.
        """
        found = self._asked(model, version, name, context)
        return None if isinstance(found, UnknownSignature) else found

    def may_end(self, model: str, version: int | None, context: RequestContext) -> bool:
        """Tell whether too low a rank may end the model server of a version. Raises as ``known`` does."""
        found = self._asked(model, version, "", context)
        return found is not None and self.traits(model, found.version).least_rank > 0

    def _asked(
        self, model: str, version: int | None, name: str, context: RequestContext
    ) -> SignatureSpec | UnknownSignature | None:
        try:
            return self.signatures.get(self.transport, model, version, name or None, context)
        except UnknownSignature as error:
            return error
        except (Unavailable, DeadlineExceeded):
            raise
        except LightboxError:  # the model server has the words for it
            return None


def probe(model: str, transport: Transport, signatures: Signatures, context: RequestContext) -> None:
    """Predict once; return when the model server answered for the model, even if the model refused the input.

    Raises Unavailable, DeadlineExceeded or ModelNotFound when it did not, ModelUninitialized when no input would do.
    """
    try:
        signature = signatures.get(transport, model, None, None, context)
        transport.predict(ModelCall(signature, probe_inputs(signature)), context)
    except (Unavailable, DeadlineExceeded, ModelNotFound, ModelUninitialized):
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
        transport.predict(ModelCall(signature, probe_inputs(signature)), context)
    except (Unavailable, DeadlineExceeded, ModelNotFound):
        raise
    except LightboxError as error:
        try:
            answering = signatures.get(transport, model, None, None, context)
            transport.predict(ModelCall(answering, probe_inputs(answering)), context)
        except LightboxError:
            return
        if error.status < 500 and signature is not None and signature.inputs != answering.inputs:
            return
        raise


def probe_inputs(signature: SignatureSpec) -> dict[str, Array]:
    """Return zeros of the signature's shapes, one for each open dimension; a small image for a string tensor."""
    picture = image_input(signature)
    sides = picture.sides if picture is not None and not picture.encoded else ()
    return {name: _probe_input(spec, sides) for name, spec in signature.inputs.items()}


def _probe_input(spec: TensorSpec, sides: Collection[int]) -> Array:
    shape = tuple(
        size if size is not None else (OPEN_SIDE if axis in sides else 1)
        for axis, size in enumerate(spec.shape or (1,))
    )
    if spec.is_string:
        texts = np.empty(shape, object)
        texts[...] = GREY_PNG
        return texts
    return np.zeros(shape, spec.dtype if spec.dtype != "bfloat16" else "float32")
