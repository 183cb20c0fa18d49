"""Which resize is used; without numpy, for the supervisor."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path

from lightbox.model_runtime.native import LIBRARY

INSTRUCTIONS = ("plain C", "AVX2", "NEON", "AVX-512 VNNI")
"""The results of the library's ``lightbox_instructions``."""


def resize_line(library: Path = LIBRARY) -> str:
    """Return a sentence on the resize in use, and the reason."""
    if not library.exists():
        return "resize: Pillow, because the native resize is not compiled"
    try:
        instructions = ctypes.CDLL(str(library)).lightbox_instructions()
    except (OSError, AttributeError) as error:
        return f"resize: Pillow, because the native resize cannot be loaded: {error}"
    if not instructions:
        return "resize: Pillow, because the CPU has no AVX2"
    decoder = "simplejpeg" if find_spec("simplejpeg") else "Pillow, because simplejpeg is not installed"
    return f"resize: native, with {INSTRUCTIONS[instructions]}; JPEGs are decoded by {decoder}"
