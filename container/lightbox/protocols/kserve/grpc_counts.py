"""How much a serialized message holds, counted on the wire: an empty input is 2 bytes there, and 100 as an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from lightbox.errors import TooLarge
from lightbox.protocols.kserve.requests import MAX_NAMED, check_count
from tfs_wire.fields import LENGTH_DELIMITED, read_fields

MAX_FIELDS = 16 * MAX_NAMED
"""Fields of a message and of its inputs and outputs, all together; the numbers of a tensor are one field."""
_TENSORS = {"inputs", "outputs"}
_BOOLS, _STRINGS = 1, 8
_PER_NUMBER = {2: 12, 3: 24, 4: 12, 5: 24}
"""Bytes that a number takes, by its field of InferTensorContents, as protobuf's object and as an array's element."""
_PER_STRING = 104
_AT_ONCE = 1 << 12


def count_message(data: bytes, kind: Any, step: Callable[[int], None]) -> None:
    """Tell ``step`` again and again how many bytes a message of a class will take beside itself; it may raise.

    Raises TooLarge for more inputs, outputs or parameters than are allowed, and ValueError for what is no message.
    Looks at MAX_FIELDS fields at most, whatever the size, and at each string of a tensor.
    """
    count = _Count(step)
    count.message(memoryview(data), kind.DESCRIPTOR)
    step(count.bytes)


class _Count:
    def __init__(self, step: Callable[[int], None]) -> None:
        self.bytes = 0
        self._left = MAX_FIELDS
        self._step = step

    def message(self, data: memoryview, kind: Any) -> None:
        found: Counter[int] = Counter()
        self.bytes += len(data)
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
            elif field.name == "contents":
                self._contents(value)

    def _contents(self, data: memoryview) -> None:
        for index, (number, wire_type, value) in enumerate(read_fields(data)):
            if index % _AT_ONCE == 0:
                self._step(self.bytes)
            if number == _STRINGS:
                self.bytes += _PER_STRING + 2 * len(value)
            elif number in _PER_NUMBER:
                last_bytes = np.count_nonzero(np.frombuffer(value, np.uint8) < 128)
                self.bytes += _PER_NUMBER[number] * int(last_bytes if wire_type == LENGTH_DELIMITED else 1)
            else:
                self.bytes += 3 * len(value)
