"""Wants that pass: of descriptors, of memory, of space."""

from __future__ import annotations

import errno

from lightbox.base.errors import BadRequest, Unavailable

SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT)
"""Errors that pass by themselves, or once others need less."""


def unreadable(what: str, error: OSError) -> BadRequest | Unavailable:
    """Return the error for a file of a caller, which is not to blame if this process lacks something."""
    if error.errno in SCARCE:
        return Unavailable(f"{what} now: {error.strerror}")
    return BadRequest(f"{what}: {error.strerror}")
