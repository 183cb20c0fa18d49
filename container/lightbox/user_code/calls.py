"""Calling a user's function: what it raises becomes an answer, never the end of the worker."""

from __future__ import annotations

import re
from typing import Any

from lightbox.errors import HandlerFailed, HandlerRefused, LightboxError
from lightbox.hidden_folders import without_folders
from lightbox.user_code.functions import Function


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
