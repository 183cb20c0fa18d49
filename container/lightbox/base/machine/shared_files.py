"""Data shared by processes in files: documents replaced atomically, numbers written in place, and locks.

A process that is killed at any moment leaves the old or the new document, and the kernel releases its locks.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext

T = TypeVar("T")
LOCK_PAUSE_SECONDS = 0.02
PARTIAL = ".partial"
"""Suffix of a file that is being written before it replaces another."""


def replace_file(path: Path, content: bytes) -> None:
    """Replace a private file atomically. Only one writer at a time. Raises OSError."""
    partial = path.with_name(f"{path.name}{PARTIAL}")
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
    partial.replace(path)


class Document(Generic[T]):
    """A JSON document in a file; readers always see a complete version.

    ``read`` caches its value until the file is replaced.
    """

    def __init__(self, path: Path, kind: TypeAdapter[T], empty: T) -> None:
        """``empty`` is the value before the first write."""
        self._path = path
        self._kind = kind
        self._read: tuple[tuple[int, int] | None, T] = (None, empty)
        self._empty = empty

    def stamp(self) -> tuple[int, int] | None:
        """Return a value that differs for each document, None without one."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def read(self) -> T:
        """Return the value. Raises OSError."""
        stamp = self.stamp()
        if stamp is None:
            return self._empty
        if stamp != self._read[0]:
            self._read = stamp, self._kind.validate_json(self._path.read_bytes())
        return self._read[1]

    def write(self, value: T) -> None:
        """Replace the value. Only one writer at a time. Raises OSError."""
        replace_file(self._path, self._kind.dump_json(value))


def shared_numbers(path: Path, count: int) -> memoryview[Any]:
    """Return ``count`` signed 64-bit integers in a file, zeros at first.

    All processes that map the file share the numbers. The file's space is allocated at once: on a full disk, a write to
    a mapped file would crash the process. Raises OSError.
    """
    size = 8 * count
    with path.open("ab+") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return memoryview(mmap.mmap(file.fileno(), size)).cast("q")


class SharedCounters:
    """Whole numbers of several processes in a file: each has a row with these ``columns``."""

    def __init__(self, path: Path, *columns: str) -> None:
        self._path = path
        self._columns = columns

    def row(self, slot: int = 0) -> memoryview[Any]:
        """Return a row, whose numbers can be set. Raises OSError."""
        width = len(self._columns)
        return shared_numbers(self._path, width * (slot + 1))[-width:]

    def read(self) -> dict[str, list[int]]:
        """Return the numbers of each column, by row; no rows before the first process has one."""
        content = b""
        with suppress(FileNotFoundError):
            content = self._path.read_bytes()
        numbers = memoryview(content).cast("q")
        return {name: numbers[at :: len(self._columns)].tolist() for at, name in enumerate(self._columns)}


def mapped(path: Path) -> memoryview:
    """Return a file's bytes, memory-mapped; they stay valid while referenced. Raises OSError."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def hold(path: Path, *, shared: bool = False, wait: bool = False, flags: int = os.O_RDWR | os.O_CREAT) -> int | None:
    """Return the descriptor of a file whose lock is held until it is closed; None while another process holds it.

    Several processes can hold a ``shared`` lock. With ``wait`` it waits until it has the lock. Raises OSError.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def release(descriptor: int) -> None:
    """Close the descriptor of ``hold``; a process that was forked meanwhile may share it."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def hold_new(path: Path) -> int:
    """Make a file that appears with its lock held, and return its descriptor. Raises OSError."""
    partial = path.with_name(f"{path.name}{PARTIAL}")
    descriptor = hold(partial, wait=True)
    assert descriptor is not None, "it waits"
    partial.rename(path)
    return descriptor


@contextmanager
def held(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[None]:
    """Hold the lock of a file; wait for it. Raises OSError."""
    descriptor = hold(path, wait=True, flags=flags)
    assert descriptor is not None, "it waits"
    try:
        yield
    finally:
        release(descriptor)


@contextmanager
def locked(path: Path, context: RequestContext, busy: LightboxError) -> Iterator[int]:
    """Hold a lock whose file exists only while it is held, and yield its descriptor.

    Raises ``busy`` if it is not free by the request's deadline.
    """
    if (lock := context.poll(lambda: try_lock(path), LOCK_PAUSE_SECONDS)) is None:
        raise busy
    try:
        yield lock
    finally:
        # Before the release: a process that opened it meanwhile sees that the file has changed.
        path.unlink(missing_ok=True)
        release(lock)


def try_lock(path: Path, shared: bool = False) -> int | None:
    """Return the descriptor of such a lock, None while another process or thread holds it."""
    lock = hold(path, shared=shared)
    if lock is None:
        return None
    try:
        if path.stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except FileNotFoundError:
        pass
    os.close(lock)
    return None
