"""Signatures as the model server describes them, with a short-lived cache.

A request is checked against one version's signature and sent to that version, so a new version never gets a tensor that
was checked against another one. A request without a version gets the first answering one (``Catalogue.versions``) or,
if unknown, the model server's newest; a new one is noticed within ``FRESH_SECONDS``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lightbox.base.errors import (
    BadRequest,
    DeadlineExceeded,
    InputMismatch,
    LightboxError,
    ModelFailed,
    ModelLoading,
    ModelNotFound,
    ModelUninitialized,
    Unavailable,
    UnknownSignature,
)
from lightbox.base.request_context import RequestContext
from lightbox.images.probe import GREY_PNG
from lightbox.model.catalogue import Catalogue
from lightbox.model.spec import DEFAULT_SIGNATURE, Array, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_files.saved_model import WORST, Traits, traits
from lightbox.model_runtime.wire.ranks import HIGHEST
from lightbox.transports.base import Transport

FRESH_SECONDS = 1.0
MAX_REMEMBERED = 1000
NOT_SERVED = "Servable not found"
"""Begins a model server's text about a version that it does not have."""

Result = TypeVar("Result")
IsLoading = Callable[[str, int | None, RequestContext], bool]
"""Returns whether a model server still loads a version, or any of a model for None. Raises Unavailable."""
_Key = tuple[str, int | None, str]
Sides = tuple[int, int]
OPEN_SIDES: Sequence[Sides] = tuple((side, side) for side in (32, 224, 64, 256, 299, 384, 512, 640, 1024))
"""Heights and widths of a probe's image if the signature leaves them open, in order; networks refuse other sizes."""


class Signatures:
    """Looks signatures up; safe to use from several threads.

    ``versions`` returns the versions of a model that answer requests without one, see Catalogue.versions; ``traits``
    those of a version's graph; ``layout`` the model's option for an image input of unknown shape; ``is_loading``
    whether a model server still loads a version.
    """

    def __init__(
        self,
        versions: Callable[[str], Sequence[int]] = lambda model: (),
        traits: Callable[[str, int], Traits] = lambda model, version: WORST,
        layout: Callable[[str], str | None] = lambda model: None,
        is_loading: IsLoading = lambda model, version, context: False,
    ) -> None:
        self._versions = versions
        self._is_loading = is_loading
        self._traits = traits
        self._layout = layout
        self._lock = threading.Lock()
        self._known: dict[_Key, tuple[float, SignatureSpec]] = {}

    def get(
        self, transport: Transport, model: str, version: int | None, name: str | None, context: RequestContext
    ) -> SignatureSpec:
        """Return a signature, at most ``FRESH_SECONDS`` old for the newest version. Raises as Transport does.

        The default name is serving_default, or the model's only one: TF Hub's models call theirs default. Among several
        answering versions the first one in the model server counts.
        """
        versions: Sequence[int | None] = [version] if version is not None else self._versions(model)
        first, *others = versions or [None]
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

    def on_newest(
        self, model: str, version: int | None, attempt: Callable[[], Result], context: RequestContext
    ) -> Result:
        """Return the result of ``attempt``. Raises Unavailable instead of ModelNotFound, see ``check_loading``.

        The answering version may just have been replaced: unless the request names a version, ModelNotFound refreshes
        the signature and retries once.
        """
        try:
            try:
                return attempt()
            except ModelNotFound:
                if version is not None:
                    raise
            self.forget(model)
            return attempt()
        except ModelNotFound as error:
            if NOT_SERVED in error.message:  # else an operation of the graph has not found something
                self.check_loading(model, version, context)
            raise

    def check_loading(self, model: str, version: int | None, context: RequestContext) -> None:
        """Raise Unavailable for a version, or a model without one for None, that the model servers still load.

        A model server does not find such a version.
        """
        if self._is_loading(model, version, context):
            which = f"the model {model!r}" if version is None else f"version {version} of the model {model!r}"
            raise ModelLoading(f"{which} is still loading; try again")

    def forget(self, model: str) -> None:
        """Drop a model's signatures from the cache."""
        with self._lock:
            for key in [key for key in self._known if key[0] == model]:
                del self._known[key]


def traits_by(catalogue: Catalogue) -> Callable[[str, int], Traits]:
    """Return a function that returns the traits of a version of a model."""

    def find(model: str, version: int) -> Traits:
        try:
            return traits(catalogue.find(model).base_path, version)
        except LightboxError:  # not listed, but the model server may have it
            return WORST

    return find


def layout_by(catalogue: Catalogue) -> Callable[[str], str | None]:
    """Return a function that returns the layout in a model's options."""

    def find(model: str) -> str | None:
        with suppress(LightboxError):  # not listed, but the model server may have it
            return catalogue.find(model).options.layout
        return None

    return find


@dataclass(frozen=True)
class RankGuard:
    """Refuses ranks that may crash the model server's process: ranks below the declared one, or, if none is declared
    and the graph has one of a few operations, below what these need (docs/adr/087). The model server checks all other
    shapes.

    All routes share it: those that make tensors call ``check`` and ``predict``, those that forward requests call
    ``known``, ``may_end`` and ``check_ranks``. ``transport`` returns the signatures.
    """

    signatures: Signatures
    transport: Transport
    traits: Callable[[str, int], Traits]

    def check(self, signature: SignatureSpec, inputs: Mapping[str, Array]) -> None:
        """Raise InputMismatch for inputs with other names or dtypes than the signature's, and as ``check_ranks``."""
        signature.check_inputs(inputs)
        self.check_ranks(signature, {name: array.ndim for name, array in inputs.items()})

    def check_ranks(self, signature: SignatureSpec, ranks: Mapping[str, int]) -> None:
        """Raise InputMismatch if inputs of these ranks may crash the model server."""
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
            misfit = call.signature.misfit(call.inputs) or call.signature.rows_apart(call.inputs)
            if misfit is None:
                raise
            raise InputMismatch(f"{misfit}: {error.message}") from error

    def known(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec | None:
        """Return a signature, ``serving_default`` for "", also of an unlisted model; None if it does not exist.

        Raises Unavailable and DeadlineExceeded.
        """
        found = self._asked(model, version, name, context)
        return None if isinstance(found, UnknownSignature) else found

    def may_end(self, model: str, version: int | None, context: RequestContext) -> bool:
        """Return whether a low rank may crash the model server of a version. Raises as ``known`` does."""
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
        except LightboxError:  # the model server returns the error
            return None


def probe(model: str, transport: Transport, signatures: Signatures, context: RequestContext) -> None:
    """Predict once; return when the model server has answered for the model, even if the model refused the input.

    Raises Unavailable, DeadlineExceeded or ModelNotFound without a response, ModelUninitialized if all inputs fail.
    """
    try:
        signature = signatures.get(transport, model, None, None, context)
        transport.predict(ModelCall(signature, probe_inputs(signature)), context)
    except (Unavailable, DeadlineExceeded, ModelNotFound, ModelUninitialized):
        raise
    except LightboxError:
        return


def probe_version(
    model: str,
    version: int,
    transport: Transport,
    signatures: Signatures,
    context: RequestContext,
    image_size: Sides | None = None,
) -> None:
    """Predict once with a version; return if it can replace the answering version.

    A working model may refuse made-up inputs. So an error counts only if the answering version has none, and a refused
    input only if both take the same inputs. ``image_size`` is the model's option, width and height; without it an input
    with open sides gets images of several sizes, and may refuse all of them: it takes another one. Raises LightboxError
    if the version cannot replace it.
    """
    sizes = OPEN_SIDES if image_size is None else [image_size[::-1]]
    try:
        signature = None
        signature = signatures.get(transport, model, version, None, context)
        _predict_with_any(sizes, signature, transport, context)
    except (Unavailable, DeadlineExceeded, ModelNotFound):
        raise
    except LightboxError as error:
        if error.status < 500 and image_size is None and signature is not None and _has_open_sides(signature):
            return
        try:
            current = signatures.get(transport, model, None, None, context)
            _predict_with_any(sizes, current, transport, context)
        except LightboxError:
            return
        if error.status < 500 and signature is not None and signature.inputs != current.inputs:
            return
        raise


def _predict_with_any(
    sizes: Sequence[Sides], signature: SignatureSpec, transport: Transport, context: RequestContext
) -> None:
    """Predict with images of the first size that the model takes.

    If it takes none, raise the first LightboxError that is not the caller's, else the first one.
    """
    refusals = list[LightboxError]()
    for sides in sizes if _has_open_sides(signature) else sizes[:1]:
        try:
            transport.predict(ModelCall(signature, probe_inputs(signature, sides)), context)
            return
        except (Unavailable, DeadlineExceeded, ModelNotFound, ModelUninitialized):
            raise
        except LightboxError as error:
            refusals.append(error)
    raise max(refusals, key=lambda refusal: refusal.status >= 500)


def _has_open_sides(signature: SignatureSpec) -> bool:
    image = signature.image
    return image is not None and not image.encoded and None in (image.height, image.width)


def probe_inputs(signature: SignatureSpec, sides: Sides = OPEN_SIDES[0]) -> dict[str, Array]:
    """Return zeros of the signature's shapes, one for each open dimension; a small image for a string tensor.

    ``sides`` are the height and width of an image if the signature leaves them open.
    """
    image = signature.image
    open_sides = {} if image is None or image.encoded else dict(zip(image.sides, sides, strict=True))
    return {name: _probe_input(spec, open_sides) for name, spec in signature.inputs.items()}


def _probe_input(spec: TensorSpec, sides: Mapping[int, int]) -> Array:
    shape = tuple(size if size is not None else sides.get(axis, 1) for axis, size in enumerate(spec.shape or (1,)))
    if spec.is_string:
        texts = np.empty(shape, object)
        texts[...] = GREY_PNG
        return texts
    return np.zeros(shape, spec.dtype if spec.dtype != "bfloat16" else "float32")
