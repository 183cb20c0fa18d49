"""How much a serialized message holds, counted on the wire: an empty input is 2 bytes there, and 100 as an object."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lightbox.errors import TooLarge
from lightbox.protocols.kserve.requests import MAX_NAMED, check_count
from tfs_wire.fields import LENGTH_DELIMITED, read_fields

_TENSORS = {"inputs", "outputs"}
MAX_FIELDS = 16 * MAX_NAMED
"""Fields of a message and of its inputs and outputs, all together; the numbers of a tensor are one field."""


def check_counts(data: bytes, kind: Any) -> None:
    """Raise TooLarge for a message of the class ``kind`` with more inputs, outputs or parameters than are allowed.

    Looks at MAX_FIELDS fields at most, whatever the size. Raises ValueError for what is no message.
    """
    _Count().message(memoryview(data), kind.DESCRIPTOR)


class _Count:
    def __init__(self) -> None:
        self._left = MAX_FIELDS

    def message(self, data: memoryview, kind: Any) -> None:
        found: Counter[int] = Counter()
        for number, wire_type, value in read_fields(data):
            found[number] += 1
            self._left -= 1
            if self._left < 0:
                raise TooLarge(f"{kind.full_name}: expected at most {MAX_FIELDS} fields")
            field = kind.fields_by_number.get(number)
            if field is None or wire_type != LENGTH_DELIMITED:
                continue
            check_count(found[number], field.name)
            if field.name in _TENSORS:
                self.message(value, field.message_type)
