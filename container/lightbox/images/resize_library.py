"""Which resize is used; imports no numpy, so that the supervisor can tell."""

from __future__ import annotations

import ctypes
from pathlib import Path

LIBRARY = Path(__file__).with_name("libresize.so.1")
"""Python takes what ends with .so for a module of its own."""


def resize_line(setting: str, library: Path = LIBRARY) -> str:
    """Say what resizes images with this value of LIGHTBOX_RESIZE, and why."""
    if setting == "pillow":
        return "resize: Pillow, as LIGHTBOX_RESIZE says"
    if not library.exists():
        return "resize: Pillow, because the native resize is not compiled"
    try:
        usable = ctypes.CDLL(str(library)).lightbox_has_avx2()
    except (OSError, AttributeError) as error:
        return f"resize: Pillow, because the native resize cannot be loaded: {error}"
    return "resize: native, with AVX2" if usable else "resize: Pillow, because the CPU has no AVX2"
