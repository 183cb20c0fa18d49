"""From pictures to rows: the one way for a folder, an endpoint and a cluster.

for row in rows(lightbox.load("models/cats"), [("a.jpg", image), ("b.jpg", other)]):
    print(row.path, row.response)
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from lightbox.core.errors import LightboxError

T = TypeVar("T")
R = TypeVar("R")
UNREADABLE = "unreadable"
"""The code of a picture that cannot be read; all other codes are the endpoint's."""


class Row(NamedTuple):
    """What is written of one picture; in a table each is a column, and None is null."""

    path: str
    """Below the source."""
    response: str | None
    """JSON text: what ``predictions[0]`` has, or the document of user code that answers otherwise."""
    code: str | None
    """Of the error; None where there is a response."""
    error: str | None
    """A sentence."""
    model: str | None
    version: int | None
    engine: str | None
    """None where an endpoint answers."""


class Answer(NamedTuple):
    """What an endpoint says of a picture, and which of its models and versions."""

    content: Any
    model: str | None
    version: int | None


class Answerer(Protocol):
    """A model, an endpoint or a cluster."""

    @property
    def name(self) -> str | None:
        """The model's name, as far as it is known before it answers."""

    @property
    def version(self) -> int | None:
        """Its version, as ``name``."""

    @property
    def engine(self) -> str | None:
        """What computes, as ``name``."""

    @property
    def reads(self) -> bool:
        """Whether it reads pictures itself: it gets the items of a source in place of what is in them."""

    def answered(self, pictures: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Yield path and answer of pictures; an exception for one that failed, or that came as one."""


def rows(by: Answerer, pictures: Iterable[tuple[str, Any]]) -> Iterator[Row]:
    """Yield a row for each picture. Pictures are paths and the bytes of files, or why those cannot be read."""
    for path, answer in by.answered(pictures):
        if isinstance(answer, Row):
            yield answer
            continue
        content, model, version = answer if isinstance(answer, Answer) else (answer, by.name, by.version)
        if isinstance(content, LightboxError):
            yield Row(path, None, content.code, content.message, model, version, by.engine)
        elif isinstance(content, Exception):
            yield Row(path, None, UNREADABLE, reason(content), model, version, by.engine)
        else:
            yield Row(path, json_text(content), None, None, model, version, by.engine)


def json_text(content: Any) -> str:
    """Return JSON text, NaN and infinities by these names, bytes as ``{"b64": ...}``."""
    try:
        text = orjson.dumps(content, default=_in_base64)
    except TypeError:  # half of a surrogate pair
        text = b"null"
    # orjson writes null for a number that is none.
    return json.dumps(content, default=_in_base64, separators=(",", ":")) if b"null" in text else text.decode()


def _in_base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def unwrapped(document: Any) -> Any:
    """Return the only prediction of a document that has one, else the document."""
    predictions = document.get("predictions") if isinstance(document, dict) else None
    return predictions[0] if isinstance(predictions, list) and len(predictions) == 1 else document


def reason(error: Exception) -> str:
    """Return in a few words why a file cannot be read or written."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the results of a function for items, in order; threads work ahead on twice as many as there are of them."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
