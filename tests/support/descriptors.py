"""A lack of file descriptors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def few_descriptors(spare: int = 0) -> Iterator[None]:
    """Let this process open at most ``spare`` files at a time in this block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit bounds the number of the next descriptor, and the lowest free one is next.
    with Path(os.devnull).open() as lowest:
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
