"""Rows for images, predicted by a model, an endpoint or a cluster.

for row in rows(lightbox.load("models/cats"), [("a.jpg", image), ("b.jpg", other)]):
    print(row.path, row.response)
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from lightbox.base.errors import LightboxError
from lightbox.tools.offline.storage import Denied

T = TypeVar("T")
R = TypeVar("R")
UNREACHED_AT_MOST = 10
"""A run ends after its first so many images that S3 denies, or so many in a row without an endpoint's response."""
MOST_HELD = 128 << 20
"""Bytes of images that wait."""
UNREADABLE, DENIED = "unreadable", "denied"
"""The codes of an image that cannot be read, and of one that S3 denies. All other codes are an endpoint's."""


class Row(NamedTuple):
    """The result for one image. In a table each field is a column, and None is null."""

    path: str
    """The image's path below the source."""
    response: str | None
    """JSON text: ``predictions[0]``, or another document that user code returns."""
    code: str | None
    """The error's code; None if there is a response."""
    error: str | None
    """The error's message."""
    model: str | None
    version: int | None
    engine: str | None
    """None for an endpoint."""


class JsonText(NamedTuple):
    """A response that is JSON text already."""

    text: bytes


class EndpointResponse(NamedTuple):
    """An endpoint's response for an image, with the model and version that predicted."""

    content: Any
    model: str | None
    version: int | None


class Predictor(Protocol):
    """A model, an endpoint or a cluster."""

    @property
    def name(self) -> str | None:
        """The model's name, if it is known before the first prediction."""

    @property
    def version(self) -> int | None:
        """The model's version, if it is known before the first prediction."""

    @property
    def engine(self) -> str | None:
        """The engine, if it is known."""

    @property
    def reads(self) -> bool:
        """Whether it reads images itself: ``responses`` then gets a source's items instead of their content."""

    def responses(self, images: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Yield path and result of images: an exception for a failure, or for an image that came as an exception."""


def rows(by: Predictor, images: Iterable[tuple[str, Any]]) -> Iterator[Row]:
    """Yield a row for each image. An image is a path and a file's bytes, or the exception of reading it."""
    for path, response in by.responses(images):
        if isinstance(response, Row):
            yield response
            continue
        content, model, version = (
            response if isinstance(response, EndpointResponse) else (response, by.name, by.version)
        )
        if isinstance(content, LightboxError):
            yield Row(path, None, content.code, content.message, model, version, by.engine)
        elif isinstance(content, Exception):
            code = DENIED if isinstance(content, Denied) else UNREADABLE
            yield Row(path, None, code, reason(content), model, version, by.engine)
        else:
            text = content.text.decode() if isinstance(content, JsonText) else json_text(content)
            yield Row(path, text, None, None, model, version, by.engine)


def json_text(content: Any) -> str:
    """Return JSON text with NaN and Infinity for such numbers, and ``{"b64": ...}`` for bytes."""
    try:
        text = orjson.dumps(content, default=_in_base64)
    except TypeError:  # half of a surrogate pair
        text = b"null"
    # orjson writes null for a number that is none.
    return json.dumps(content, default=_in_base64, separators=(",", ":")) if b"null" in text else text.decode()


def _in_base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def unwrapped(document: Any) -> Any:
    """Return the prediction of a document with exactly one, else the document."""
    predictions = document.get("predictions") if isinstance(document, dict) else None
    return predictions[0] if isinstance(predictions, list) and len(predictions) == 1 else document


def reason(error: Exception) -> str:
    """Return the reason of an error of a file, in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield a function's results for items, in order. Threads work ahead, by twice as many items as threads.

    They work less ahead while the images of these items and results have more than MOST_HELD bytes.
    """
    waiting: deque[tuple[Future[R], int]] = deque()
    held, turn = 0, Lock()

    def count(size: int) -> int:
        nonlocal held
        with turn:
            held += size
        return size

    def run(item: T) -> R:
        result = function(item)
        count(_size(result))
        return result

    def first() -> R:
        future, size = waiting.popleft()
        result = future.result()
        count(-size - _size(result))
        return result

    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append((pool.submit(run, item), count(_size(item))))
                while len(waiting) > 2 * threads or (waiting and held > MOST_HELD):
                    yield first()
            while waiting:
                yield first()
        finally:
            for future, _ in waiting:
                future.cancel()


def _size(pair: Any) -> int:
    """Return the bytes of an image, which is a path and its content."""
    return len(pair[1]) if isinstance(pair, tuple) and isinstance(pair[1], bytes) else 0
