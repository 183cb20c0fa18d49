"""Pillow's exceptions, whatever they are, become ours: a caller's bytes can never be a 500."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from PIL.Image import DecompressionBombError

from lightbox.errors import ImageUndecodable, LightboxError, TooLarge
from lightbox.images.limits import MAX_MEMORY_SETTING, MAX_PIXELS_SETTING
from lightbox.shortening import shorten

REASON_LIMIT = 160
"""Characters of Pillow's own words in a message; they can quote the caller's bytes."""


# What Pillow stumbles over where it does not check; their words say nothing to the sender of the file.
_SLIPS = (
    struct.error,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)
_EMPTY_WORDS = frozenset({"", "not identified by this driver"})


@contextmanager
def undecodable(name: str) -> Iterator[None]:
    """Raise ImageUndecodable (400) for anything that fails in here; ``name`` says what was being read."""
    try:
        yield
    except LightboxError:
        raise
    except DecompressionBombError as error:
        raise TooLarge(f"The {name} has more pixels than are accepted ({MAX_PIXELS_SETTING}).") from error
    except MemoryError as error:
        raise TooLarge(f"The {name} needs more memory than there is ({MAX_MEMORY_SETTING}).") from error
    except Exception as error:
        # Decoders of hostile files raise a dozen unrelated types (OSError, SyntaxError, struct.error,
        # KeyError, zlib.error, RecursionError, ...), and a new release may add one. None of them is a 500.
        raise ImageUndecodable(f"The {name} cannot be decoded: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    words = " ".join(str(error).split()).rstrip(".")
    wrapped = error.__cause__ if str(error.__cause__) == str(error) else None
    if isinstance(error, _SLIPS) or isinstance(wrapped, _SLIPS) or words in _EMPTY_WORDS:
        return "it is cut off or broken"
    return shorten(words, REASON_LIMIT)
