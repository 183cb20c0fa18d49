"""Pillow's exceptions, whatever they are, become ours: a caller's bytes can never be a 500."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from time import thread_time

from PIL.Image import DecompressionBombError

from lightbox.error_texts import shorten
from lightbox.errors import ImageUndecodable, LightboxError, TooLarge
from lightbox.images.limits import MAX_MEMORY_SETTING, MAX_PIXELS_SETTING

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
_READS_BETWEEN_LOOKS = 16


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


class PatientBytes(BytesIO):
    """A body to decode from, which stops being read when the thread has used up its processor time.

    Pillow walks markers, chunks and tags in Python loops. A file made of millions of them, or of thousands of
    compressed texts, would keep a worker busy for minutes; each round of such a loop reads, and so ends here.
    Processor time is that of the calling thread: other requests do not count. The body is not copied.
    """

    def __init__(self, body: bytes, cpu_seconds: float) -> None:
        super().__init__(body)
        self._reads = 0
        self._started = thread_time()
        self._cpu_seconds = cpu_seconds

    def allow(self, cpu_seconds: float) -> None:
        """Set the processor time, in seconds since this was made, after which reading fails."""
        self._cpu_seconds = cpu_seconds

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as BytesIO does; raises ImageUndecodable when the time is used up."""
        self._reads += 1
        if self._reads % _READS_BETWEEN_LOOKS == 0 and thread_time() - self._started > self._cpu_seconds:
            raise ImageUndecodable(f"Reading the image took more than {self._cpu_seconds:g} s of processor time.")
        return super().read(size)
