"""The model that a request names, found before its body is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import Header
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, TARGET_MODEL, CustomAttributes
from lightbox.core.edge import header_of
from lightbox.model.catalogue import Catalogue
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields

_FIRST_FIELDS = 8


class ModelNames:
    """Finds names in requests; "" stands for no known model. ``paths`` are patterns of paths that have a name."""

    def __init__(self, catalogue: Catalogue, paths: Iterable[str]) -> None:
        self._catalogue = catalogue
        self._paths = re.compile("|".join(paths) or "(?!)")

    def of_request(self, environ: dict[str, Any]) -> str:
        """Return the model of a request in WSGI's form."""
        header = header_of(environ)
        if found := self._paths.match(environ.get("PATH_INFO", "")):
            return self._named(found[found.lastindex or 0], header)
        if environ.get("REQUEST_METHOD") != "POST":
            return ""
        return self._named(_model_in(header(CUSTOM_ATTRIBUTES) or ""), header)

    def of_message(self, message: bytes, header: Header) -> str:
        """Return the model of a gRPC message: its first field has the name, or a message whose first field has it."""
        first = _first_field(message)
        inner = _first_field(first)
        return self._named(_text(first), header) or (self._named(_text(inner), header) if inner else "")

    def _named(self, name: str | None, header: Header) -> str:
        catalogue, target = self._catalogue, header(TARGET_MODEL)
        with suppress(LightboxError):
            if target and (found := catalogue.of_target(target)) is not None:
                return found
            return catalogue.find(name or None).name
        return ""


@lru_cache(256)
def _model_in(attributes: str) -> str | None:
    return CustomAttributes.read(attributes).model


def _first_field(message: bytes) -> bytes:
    """Return the field 1 of a message, b"" unless it is among the first few fields, where ordered writers have it."""
    with suppress(ValueError):
        for number, kind, value in islice(read_fields(memoryview(message)), _FIRST_FIELDS):
            if number == 1 and kind == LENGTH_DELIMITED:
                return bytes(value)
    return b""


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
