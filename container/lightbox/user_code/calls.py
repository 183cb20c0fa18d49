"""Calling a user's function: what it raises becomes an answer, never the end of the worker."""

from __future__ import annotations

from typing import Any

from lightbox.errors import HandlerFailed, LightboxError
from lightbox.hidden_folders import without_folders
from lightbox.user_code.functions import Function


def call(function: Function, *arguments: Any) -> Any:
    """Return the function's result.

    A LightboxError passes as it was raised; anything else, SystemExit and KeyboardInterrupt too, becomes
    HandlerFailed, whose cause holds the traceback.
    """
    try:
        return function(*arguments)
    except LightboxError:
        raise
    except BaseException as error:
        raise HandlerFailed(f"handler failed: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {without_folders(text)}"
