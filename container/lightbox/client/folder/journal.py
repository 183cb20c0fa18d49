"""What is known of each image: one JSON object a line, appended whole and at once.

A kill between two lines leaves a whole file. One that was cut within a line, as by a machine that lost its power, is
mended when it is opened again: the line is left out, and its image sent again.
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
"""How every line begins: what begins otherwise was not written here, and is left alone."""


class JournalError(Exception):
    """The file cannot be gone on with; the message says why."""


@dataclass(frozen=True)
class Record:
    """One image. Without an answer ``status`` is None; ``response`` is the model's, ``error`` what a failure says.

    ``ms`` is the time of the last attempt in milliseconds, ``bytes`` the image's size, ``model`` what --model said.
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
    """The file, open for one run; a second run at the same time gets JournalError. Use as a context manager.

    ``sizes`` has the bytes of each image by path. What is found in the file of a failure, or of an image of another
    size, is dropped: such an image is sent again. ``done`` has the paths that are left.
    """

    def __init__(self, path: Path, sizes: Mapping[str, int], model: str = "") -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self._lock()
            self.done = {record.path for record in self._mend(sizes, model)}
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

    def _mend(self, sizes: Mapping[str, int], model: str) -> list[Record]:
        """Leave in the file only what has been answered, and return it."""
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
    """Read a journal, without a last line that does not end; raise JournalError for what is none."""
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
