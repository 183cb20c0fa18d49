"""What a user's code answers: a body and its content type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lightbox.errors import HandlerFailed

_LONGEST = 1000
"""Characters of a content type: beyond nginx's buffer for headers the answer would be lost."""
_HEADER_VALUE = re.compile(rf"[\x20-\x7e]{{1,{_LONGEST}}}")


@dataclass(frozen=True)
class HandlerAnswer:
    """A body and its content type, as the user's code returned them."""

    body: bytes
    content_type: str


def as_bytes(value: Any) -> bytes | None:
    """Return text as UTF-8 and bytes as they are, None for anything else."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def check_content_type(name: str, value: Any) -> str:
    """Return a content type that can be sent in a header; HandlerFailed for anything else."""
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise HandlerFailed(
            f"{name} returned {value!r:.100} as the content type: expected text such as "
            f"text/csv, of at most {_LONGEST} characters"
        )
    return value
