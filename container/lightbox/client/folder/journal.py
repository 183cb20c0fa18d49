"""The result of each image: one JSON object a line, appended atomically.

A kill between two lines leaves a valid file. A line that was cut, as by a power failure, is repaired when the file is
opened again: the line is dropped, and its image sent again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_START = b'{"path": '
"""Beginning of every line; a file with other lines is not a journal, and stays unchanged."""


class JournalError(Exception):
    """The file cannot be continued; the message says why."""


@dataclass(frozen=True)
class Record:
    """One image. ``status`` is None without a response; ``response`` is the model's, ``error`` a failure's message.

    ``ms`` is the time of the last attempt in milliseconds, ``bytes`` the image's size, ``model`` the value of --model.
    """

    path: str
    status: int | None
    response: Any
    error: str | None
    ms: float
    attempts: int
    request_id: str
    bytes: int
    model: str

    @property
    def good(self) -> bool:
        """Whether the model has answered."""
        return self.status == 200


class Journal:
    """The file, open for one run; a second concurrent run gets JournalError. Use as a context manager.

    ``sizes`` has the bytes of each image by path. Records of failures, and of images with another size, are dropped:
    such images are sent again. ``done`` has the other paths.
    """

    def __init__(self, path: Path, sizes: Mapping[str, int], model: str = "") -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self._lock()
            self.done = {record.path for record in self._repair(sizes, model)}
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def append(self, record: Record) -> None:
        """Write one record at the end, before anything else happens to it; raise JournalError when it does not fit."""
        line = json.dumps(asdict(record)).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be written: {error.strerror}") from error
        if written != len(line):
            os.ftruncate(self._descriptor, before)
            raise JournalError(f"{self.path}: cannot be written: the disk is full")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(f"{self.path}: another run is writing to it") from error

    def _repair(self, sizes: Mapping[str, int], model: str) -> list[Record]:
        """Keep only the answered images in the file, and return them."""
        found = list(records(self.path))
        others = {record.model for record in found} - {model}
        if others:
            raise JournalError(
                f"{self.path}: holds answers of {_named(min(others))}, this run asks {_named(model)}: "
                "name another file with --out"
            )
        good = [record for record in found if record.good and sizes.get(record.path, record.bytes) == record.bytes]
        text = b"".join(json.dumps(asdict(record)).encode() + b"\n" for record in good)
        if text != self.path.read_bytes():
            self._replace(text)
        return good

    def _replace(self, text: bytes) -> None:
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_bytes(text)
        descriptor = os.open(new, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        new.replace(self.path)
        os.close(self._descriptor)
        self._descriptor = descriptor


def records(path: Path) -> Iterator[Record]:
    """Read a journal without an incomplete last line; raise JournalError for another file."""
    *lines, cut = path.read_bytes().split(b"\n")
    if not cut.startswith(_START[: len(cut)]):
        raise JournalError(f"{path}: is not a file of this script's results: name another one with --out")
    for number, line in enumerate(lines, start=1):
        try:
            yield Record(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise JournalError(
                f"{path}: line {number} is not a result of this script: name another file with --out"
            ) from error


def _named(model: str) -> str:
    return f"the model {model!r}" if model else "the default model"
