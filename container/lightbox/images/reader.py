"""The encoded image as a file that ends its reader's patience: bounds loops that run in Python."""

from __future__ import annotations

from io import BytesIO
from time import thread_time

from lightbox.errors import ImageUndecodable

_READS_BETWEEN_LOOKS = 16


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
