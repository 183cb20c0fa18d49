"""Gives freed memory back to the system, where the C library keeps it between what is still in use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def find_trim() -> Callable[[], Any]:
    """Return what gives it back; where there is no glibc it does nothing. Takes milliseconds, beside other threads."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: trim(0)) if trim is not None else lambda: None
