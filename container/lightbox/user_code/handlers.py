"""The Lightbox handler API: preprocess and postprocess."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import HandlerFailed, HandlerRefused, LightboxError
from lightbox.codecs.base import Response
from lightbox.codecs.json_text import to_json
from lightbox.images.decode import OriginalImages
from lightbox.model.casting import fit
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.user_code.api_detection import Function

if TYPE_CHECKING:
    from PIL.Image import Image

RESPONSE_OUTPUT = "answer"
"""The output with the body of user code in the response to a request of tensors."""


@dataclass(frozen=True)
class Request:
    """One request, the argument of ``preprocess(request)`` and ``postprocess(outputs, request)``."""

    body: bytes
    """The raw body."""

    content_type: str
    """The raw Content-Type with its parameters; empty if absent."""

    accept: str
    """The raw Accept header; empty if absent."""

    custom_attributes: Mapping[str, str]
    """The pairs of the header ``X-Amzn-SageMaker-Custom-Attributes``, including those that Lightbox ignores.

    Unknown pairs that begin with ``tfs-`` are refused earlier.
    """

    signature: SignatureSpec
    """The model's signature: ``inputs`` and ``outputs`` by name, each with dtype and shape."""

    options: ModelOptions
    """The model's ``code/lightbox.json`` with the environment's overrides: scaling, image_size, outputs, ..."""

    original_images: OriginalImages
    """The source of ``images`` and ``image_sizes``."""

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

        Raises ImageUndecodable (400) for a body that is not an image, TooLarge (413) beyond the limits: all images
        together have at most LIGHTBOX_MAX_IMAGE_PIXELS, as all are in memory. Raises DeadlineExceeded (504) at the
        deadline.
        """
        return self.original_images.images

    @property
    def image_sizes(self) -> list[tuple[int, int]]:
        """(width, height) of each original image, upright; no image is kept for it. Raises as ``images`` for one."""
        return self.original_images.sizes

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's class names, from ``labels`` in ``code/lightbox.json``; empty if absent."""
        return tuple(self.options.labels or ())

    def label(self, index: int) -> str:
        """Return the name of a class, or its index as text."""
        return self.labels[index] if 0 <= index < len(self.labels) else str(index)


_LONGEST = 1000
"""Longest content type: beyond nginx's header buffer the response would be lost."""
_HEADER_VALUE = re.compile(rf"[\x20-\x7e]{{1,{_LONGEST}}}")
JSON = "application/json"
ANY_BYTES = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+(\s*;[\x20-\x7e]*)?", re.ASCII)


def as_bytes(value: Any) -> bytes | None:
    """Return text as UTF-8, bytes unchanged, None for others."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def check_content_type(name: str, value: Any) -> str:
    """Return a content type that is valid in a header; raise HandlerFailed for others."""
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise HandlerFailed(
            f"{name} returned {value!r:.100} as the content type: expected text such as "
            f"text/csv, of at most {_LONGEST} characters"
        )
    return value


def call(function: Function, *arguments: Any) -> Any:
    """Return the function's result.

    A LightboxError passes unchanged, a falcon.HTTPError with its status and text. Other exceptions, including
    SystemExit and KeyboardInterrupt, become HandlerFailed, whose cause holds the traceback.
    """
    try:
        return function(*arguments)
    except LightboxError:
        raise
    except BaseException as error:
        raise _http_error(error) or _failed(error) from error


class _Texts:
    are_for_callers = True


def keep_texts() -> None:
    """Keep the texts of exceptions from callers, who learn their classes alone, in this process."""
    _Texts.are_for_callers = False


def _failed(error: BaseException) -> HandlerFailed:
    text = _describe(error)
    if _Texts.are_for_callers:
        return HandlerFailed(f"handler failed: {text}")
    return HandlerFailed(f"handler failed: {type(error).__name__}", detail=text)


def _http_error(error: BaseException) -> LightboxError | None:
    """Return the error for a falcon.HTTPError, None for any other exception.

    AWS's container has falcon, and handlers raise its errors. They are recognized by their attributes, without falcon:
    a status such as "404 Not Found", 404 or HTTPStatus.NOT_FOUND, a title and a description.
    """
    try:
        status, title, description = (getattr(error, name) for name in ("status", "title", "description"))
        digits = re.match(r"[45]\d\d(?!\d)", str(getattr(status, "value", status)))
        if digits is None:
            return None
        own = "" if str(title).startswith(digits[0]) else title  # the status line is the default title
        text = ": ".join(str(part) for part in (own, description) if part) or str(title or status)
    except Exception:
        return None
    number = int(digits[0])
    return HandlerRefused(text, status=number) if number < 500 else HandlerFailed(text, status=number)


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {without_folders(text)}"


@dataclass(frozen=True)
class LightboxHandlers:
    """The user's functions; None means the built-in handling."""

    preprocess: Function | None = None
    postprocess: Function | None = None


def prepare(preprocess: Function, request: Request) -> dict[str, Array]:
    """Return the inputs of the user's preprocess, in the signature's dtypes.

    Raises HandlerFailed unless they are a dict of arrays that fits the signature, and as the user's code does.
    """
    result = call(preprocess, request)
    if not isinstance(result, Mapping):
        raise HandlerFailed(
            f"preprocess returned {type(result).__name__}: expected a dict of arrays by input name, "
            f"{_wanted(request.signature)}"
        )
    return fit(result, request.signature)


def finish(postprocess: Function, outputs: Mapping[str, Array], request: Request) -> Response:
    """Return the response of the user's postprocess.

    bytes are sent unchanged, as is a pair of a body and a content type; other values are written as JSON, arrays as
    nested lists. Raises HandlerFailed for values that JSON cannot hold, and as the user's code does.
    """
    return _response(call(postprocess, dict(outputs), request))


def _response(result: Any) -> Response:
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
    """Return the result of the user's postprocess for a protocol of tensors.

    A dict of arrays by name is taken unchanged, other results as the body of ``finish``. Raises as ``finish`` does.
    """
    result = call(postprocess, dict(outputs), request)
    tensors = _tensors(result) if isinstance(result, Mapping) and result else None
    return _response(result) if tensors is None else tensors


def _tensors(result: Mapping[Any, Any]) -> dict[str, Array] | None:
    """Return arrays of numbers, text or bytes by name; None if there are other values."""
    if not all(isinstance(name, str) and isinstance(value, np.ndarray) for name, value in result.items()):
        return None
    tensors: dict[str, Array] = {}
    for name, value in result.items():
        array = value if value.dtype.kind in "biuf" else _byte_strings(value)
        if array is None:
            return None
        tensors[name] = array
    return tensors


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
    """Return JSON; NaN and infinities are written as in TensorFlow Serving."""
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
    """Return whether a float outside of arrays is not finite: orjson would write null for it."""
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
