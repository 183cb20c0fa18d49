"""The interface of all transports to the model server."""

from __future__ import annotations

import re
from typing import Protocol

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import (
    BadRequest,
    DeadlineExceeded,
    ImageUndecodable,
    InputMismatch,
    LightboxError,
    ModelFailed,
    ModelNotFound,
    ModelUninitialized,
    Unavailable,
)
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec

RECONNECT_SECONDS, RECONNECT_PAUSE = 1.0, 0.05
"""Seconds that a request waits for an unreachable model server, and seconds between its attempts: a quick restart
takes less."""
_GRAPH_NODE = re.compile(r"\{\{(?:function_)?node ")
_NO_MEMORY = "OOM when allocating"
_DECODE_NODE = re.compile(r"\{\{node [^}]*decode_?(?:and_?crop_?)?(?:image|jpe?g|png|gif|bmp|webp)", re.IGNORECASE)
_PARSE_EXAMPLE_NODE = re.compile(r"\{\{node [^}]*parse_?(?:single_?)?example", re.IGNORECASE)
_UNINITIALIZED = re.compile(r"uninitialized|not (?:been )?initialized")
"""TensorFlow's texts for a missing variable or table. REST has no status of its own for it."""
_SHAPES_DISAGREE = re.compile(r"Incompatible shapes|Matrix size-incompatible")
_VALUES = re.compile(r"indices\[|index \S+ .*out of (?:bounds|range)|integer division by zero", re.IGNORECASE)
"""TensorFlow's texts for positions outside of a tensor, and for a division."""


class Transport(Protocol):
    """Carries tensors to the model server and back. Safe to use from several threads."""

    name: str

    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        """Return a signature as the model server describes it; of the newest version by default.

        Raises ModelNotFound for a model or version that is not loaded, UnknownSignature, Unavailable and
        DeadlineExceeded.
        """
        ...

    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        """Return the wanted outputs by name; times the stages encode, predict and decode_response.

        Raises ModelNotFound, InputMismatch, ModelFailed, Unavailable and DeadlineExceeded.
        """
        ...


_CUT = "Stream removed"
"""gRPC's own words for a call whose connection ended: the server sent something other than HTTP/2, say."""


def from_server(code: str, message: str, model: str, version: int | None) -> LightboxError:
    """Return the error for a gRPC status name and the server's message about ``model``.

    RESOURCE_EXHAUSTED means full queues or threads, but also a graph without memory for its tensors: that is the
    model's fault, and another attempt does not help.
    """
    message = without_folders(message)
    which = f"model {model!r}" if version is None else f"version {version} of the model {model!r}"
    if code == "INVALID_ARGUMENT":
        return _invalid_argument(message, which)
    if code == "NOT_FOUND":
        return ModelNotFound(f"{which} is not loaded in the model server: {message}")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded(f"the model server did not answer in time for the {which}")
    is_cut = code == "UNKNOWN" and message.startswith(_CUT)
    if code in ("UNAVAILABLE", "CANCELLED") or is_cut:  # the message names internal addresses: it is for the log
        return Unavailable(f"the model server is not available for the {which}")
    if code == "RESOURCE_EXHAUSTED" and not (_GRAPH_NODE.search(message) or _NO_MEMORY in message):
        return Unavailable(f"the model server is busy: {message}")
    return _failed(message, which)


def _failed(message: str, which: str) -> ModelFailed:
    kind = ModelUninitialized if _UNINITIALIZED.search(message) else ModelFailed
    return kind(f"{which} failed: {message}")


def _invalid_argument(message: str, which: str) -> LightboxError:
    """Distinguish the caller's fault from the model's.

    The server returns INVALID_ARGUMENT when it refuses the request, and also when an operation of the graph fails; only
    the latter names a graph node. Inputs of the graph have passed our own check. So a failing operation is the model's
    fault, unless its message says that images, examples, shapes or numbers do not fit.
    """
    if _DECODE_NODE.search(message):
        return ImageUndecodable(f"{which} could not decode the image: {message}")
    if _PARSE_EXAMPLE_NODE.search(message):
        return InputMismatch(f"examples do not fit the {which}: {message}")
    if _SHAPES_DISAGREE.match(message) or _VALUES.search(message):
        return InputMismatch(f"inputs do not fit the {which}: {message}")
    if _GRAPH_NODE.search(message):
        return _failed(message, which)
    return BadRequest(f"the model server refused the request for the {which}: {message}")
