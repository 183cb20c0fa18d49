"""One request, whatever the protocol it came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightbox.codecs.base import Method


@dataclass(frozen=True)
class Invocation:
    """One request. Fields left None take the configured default.

    ``content_type`` and ``accept`` are the raw headers, "" where there was none; ``custom_attributes`` too, with
    ``attributes`` as its pairs.
    """

    body: bytes
    content_type: str = ""
    accept: str = ""
    custom_attributes: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    method: Method = Method.PREDICT
    transport: str | None = None
