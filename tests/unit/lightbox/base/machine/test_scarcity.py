"""A file that cannot be read is its caller's fault, but not where the server lacks descriptors or memory."""

from __future__ import annotations

import errno
import os

import pytest

from lightbox.base.errors import BadRequest, Unavailable
from lightbox.base.machine.scarcity import unreadable


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOENT, BadRequest), (errno.EACCES, BadRequest), (errno.EMFILE, Unavailable), (errno.ENOMEM, Unavailable)],
)
def test_a_want_of_the_servers_is_not_the_callers_fault(number: int, expected: type[Exception]) -> None:
    error = unreadable("url: 'half' cannot be read", OSError(number, os.strerror(number)))
    assert type(error) is expected
    assert str(error).startswith("url: 'half' cannot be read")
