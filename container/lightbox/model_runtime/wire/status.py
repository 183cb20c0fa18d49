"""TensorFlow Serving's status of a call: a canonical code and a sentence.

The codes are those of ``google.rpc.Code``; gRPC uses the same numbers, REST maps them to HTTP.
"""

from __future__ import annotations

import errno
from enum import IntEnum


class Code(IntEnum):
    """Canonical status codes, with the names that TensorFlow Serving prints."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusError(ValueError):
    """A failed call: ``code`` is the status, ``message`` is TensorFlow Serving's text."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def invalid(message: str) -> StatusError:
    """Return the most common error: an invalid request."""
    return StatusError(Code.INVALID_ARGUMENT, message)


LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def unreadable(what: str, error: object) -> StatusError:
    """Return the error of a model's file, which is not to blame if this process lacks descriptors or memory.

    Then the code is RESOURCE_EXHAUSTED, as TensorFlow's for the same.
    """
    lacks = isinstance(error, OSError) and error.errno in LACKS
    return StatusError(Code.RESOURCE_EXHAUSTED if lacks else Code.INVALID_ARGUMENT, f"{what} cannot be read: {error}")
