"""The deadline of a thread's work. Readers of files and messages look at it between their steps, whoever calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
_AT_ONCE = 1 << 12
_check: ContextVar[Callable[[], object]] = ContextVar("deadline", default=lambda: None)


@contextmanager
def deadline(check: Callable[[], object]) -> Iterator[None]:
    """Let readers of this thread call ``check`` inside the block. It raises an error after the deadline."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_deadline() -> None:
    """Raise the error of ``deadline`` if the deadline has passed; a thread without one has all the time."""
    _check.get()()


def in_time(items: Iterable[T]) -> Iterator[T]:
    """Yield items, and call ``check_deadline`` from time to time."""
    for count, item in enumerate(items):
        if count % _AT_ONCE == 0:
            check_deadline()
        yield item
