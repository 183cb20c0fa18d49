"""What a user's code answers: a body and its content type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightbox.codecs.base import Response
from lightbox.codecs.json_text import to_json
from lightbox.core.error_texts import without_folders
from lightbox.core.errors import HandlerFailed, HandlerRefused, LightboxError
from lightbox.images.decode import OriginalImages
from lightbox.model.casting import fit
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.user_code.loader import Function

if TYPE_CHECKING:
    from PIL.Image import Image

ANSWER = "answer"
"""The output that holds the bodies of user code that makes bodies, where a request of tensors is answered."""


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
    """The pairs of the header ``X-Amzn-SageMaker-Custom-Attributes``, those that Lightbox does not read too.

    Of those that begin with ``tfs-`` only Lightbox's own get here: others are refused before.
    """

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


_LONGEST = 1000
"""Characters of a content type: beyond nginx's buffer for headers the answer would be lost."""
_HEADER_VALUE = re.compile(rf"[\x20-\x7e]{{1,{_LONGEST}}}")
JSON = "application/json"
ANY_BYTES = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+(\s*;[\x20-\x7e]*)?", re.ASCII)


def as_bytes(value: Any) -> bytes | None:
    """Return text as UTF-8 and bytes as they are, None for anything else."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def check_content_type(name: str, value: Any) -> str:
    """Return a content type that can be sent in a header; HandlerFailed for anything else."""
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise HandlerFailed(
            f"{name} returned {value!r:.100} as the content type: expected text such as "
            f"text/csv, of at most {_LONGEST} characters"
        )
    return value


def call(function: Function, *arguments: Any) -> Any:
    """Return the function's result.

    A LightboxError passes as it was raised, a falcon.HTTPError with its status and text; anything else, SystemExit and
    KeyboardInterrupt too, becomes HandlerFailed, whose cause holds the traceback.
    """
    try:
        return function(*arguments)
    except LightboxError:
        raise
    except BaseException as error:
        raise _http_error(error) or HandlerFailed(f"handler failed: {_describe(error)}") from error


def _http_error(error: BaseException) -> LightboxError | None:
    """Return what a falcon.HTTPError asks for, None for any other exception.

    AWS's container has falcon, and handlers raise its errors. One is known by what it has, so that falcon need not be
    here: a status such as "404 Not Found", 404 or HTTPStatus.NOT_FOUND, a title and a description.
    """
    try:
        status, title, description = (getattr(error, name) for name in ("status", "title", "description"))
        found = re.match(r"[45]\d\d(?!\d)", str(getattr(status, "value", status)))
        if found is None:
            return None
        own = "" if str(title).startswith(found[0]) else title  # without one it is the status line
        text = ": ".join(str(part) for part in (own, description) if part) or str(title or status)
    except Exception:
        return None
    number = int(found[0])
    return HandlerRefused(text, status=number) if number < 500 else HandlerFailed(text, status=number)


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {without_folders(text)}"


@dataclass(frozen=True)
class LightboxHandlers:
    """The user's halves; what is None is left to the built-in handling."""

    preprocess: Function | None = None
    postprocess: Function | None = None


def prepare(preprocess: Function, request: Request) -> dict[str, Array]:
    """Return the inputs that the user's preprocess gives, in the signature's dtypes.

    Raises HandlerFailed when they are no dict of arrays or do not fit the signature, and what the user's code raises.
    """
    result = call(preprocess, request)
    if not isinstance(result, Mapping):
        raise HandlerFailed(
            f"preprocess returned {type(result).__name__}: expected a dict of arrays by input name, "
            f"{_wanted(request.signature)}"
        )
    return fit(result, request.signature)


def finish(postprocess: Function, outputs: Mapping[str, Array], request: Request) -> Response:
    """Return the answer that the user's postprocess gives.

    bytes go out as they are; a pair of a body and a content type, too; anything else is written as JSON, arrays as
    nested lists. Raises HandlerFailed for what cannot be written, and what the user's code raises.
    """
    return _answer(call(postprocess, dict(outputs), request))


def _answer(result: Any) -> Response:
    if result is None:
        raise HandlerFailed(
            "postprocess returned None: expected something that JSON can hold, an array, bytes, "
            "or two values, the body and its content type"
        )
    if isinstance(result, tuple) and len(result) == 2 and _is_media_type(result[1]):
        body = as_bytes(result[0])
        return Response(_json(result[0]) if body is None else body, check_content_type("postprocess", result[1]))
    if isinstance(result, bytes | bytearray | memoryview):
        return Response(bytes(result), ANY_BYTES)
    return Response(_json(result), JSON)


def finish_tensors(
    postprocess: Function, outputs: Mapping[str, Array], request: Request
) -> dict[str, Array] | Response:
    """Return what the user's postprocess gives, for a protocol whose answers are tensors.

    A dict of arrays by name is taken as it is, anything else as the body that ``finish`` makes of it. Raises as
    ``finish`` does.
    """
    result = call(postprocess, dict(outputs), request)
    tensors = _tensors(result) if isinstance(result, Mapping) and result else None
    return _answer(result) if tensors is None else tensors


def _tensors(result: Mapping[Any, Any]) -> dict[str, Array] | None:
    """Return arrays of numbers, text or bytes by name; None where there is anything else."""
    if not all(isinstance(name, str) and isinstance(value, np.ndarray) for name, value in result.items()):
        return None
    found: dict[str, Array] = {}
    for name, value in result.items():
        array = value if value.dtype.kind in "biuf" else _byte_strings(value)
        if array is None:
            return None
        found[name] = array
    return found


def _byte_strings(array: Array) -> Array | None:
    elements = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
    if not all(isinstance(item, bytes) for item in elements):
        return None
    return np.array(elements, object).reshape(array.shape)


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None


def _wanted(signature: SignatureSpec) -> str:
    return ", ".join(map(str, signature.inputs.values()))


def _json(value: Any) -> bytes:
    """Return JSON; not-a-number and infinities are written as TensorFlow Serving does, whatever holds them."""
    try:
        if not _has_odd_number(value):
            return to_json(value)
    except (TypeError, RecursionError):
        pass
    try:
        return json.dumps(value, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise HandlerFailed(f"postprocess returned {type(value).__name__} that JSON cannot hold: {error}") from error


def _has_odd_number(value: Any) -> bool:
    """Tell whether a float outside of arrays is not finite: orjson would write null for it."""
    if isinstance(value, float | np.floating):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_odd_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_odd_number, value))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
