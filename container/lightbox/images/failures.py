"""Pillow's exceptions, whatever they are, become ours: a caller's bytes can never be a 500."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PIL.Image import DecompressionBombError

from lightbox.errors import ImageUndecodable, LightboxError, TooLarge, shorten
from lightbox.images.limits import MAX_MEMORY_SETTING, MAX_PIXELS_SETTING

REASON_LIMIT = 160
"""Characters of Pillow's own words in a message; they can quote the caller's bytes."""


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
    return shorten(words, REASON_LIMIT) if words else f"the decoder stopped with {type(error).__name__}"
