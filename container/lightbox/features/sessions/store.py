"""Sessions with one image each, in files that all workers share; the supervisor removes expired ones.

A session is one file in a private folder, in memory (/dev/shm) if there is room. Its name is a hash of the session's
id, so that neither the folder nor a log reveals an id. It begins with the expiry time and the size of the image; raw
RGBX pixels follow, which readers map. Files are replaced atomically by renaming. Counting, creating and replacing files
needs the folder's lock; reading needs none.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lightbox.core.errors import BadRequest, TooLarge, Unavailable
from lightbox.machine.shared_files import PARTIAL, held, hold, mapped, release, replace_file

FOLDER = "sessions"
"""Name of the folder, or of a link to it, in the run directory."""
HEADER = "X-Amzn-SageMaker-Session-Id"
NEW, CLOSE = "NEW_SESSION", "CLOSE"
MEMORY_SETTING = "a quarter of LIGHTBOX_REQUEST_MEMORY_MB"
MAX_SESSIONS = 1000

_ID = re.compile(r"[a-zA-Z0-9](?:-*[a-zA-Z0-9])*")
"""The form of ids in botocore's model of the API."""
_LONGEST_ID = 256
_KEPT = struct.Struct("<dIIdQ")
"""Expiry in seconds since the epoch, width, height, seconds of decoding, bytes of the original."""
_PIXEL = 4
"""Bytes of a pixel, as the compiled resize reads them without a copy."""
_SUFFIX, _TURN = ".session", "turn"


class UnknownSession(BadRequest):
    """No session of this id is open: it never existed, has expired, or was closed."""

    code = "unknown_session"


@dataclass(frozen=True)
class KeptImage:
    """An image of a session: ``pixels`` are its rows, RGBX, with the seconds of decoding and the bytes of the original.

    The pixels stay readable after the session's end, as long as they are referenced.
    """

    width: int
    height: int
    pixels: memoryview
    decode_seconds: float
    sent_bytes: int


@dataclass(frozen=True)
class Session:
    """An open session: its id, and its end in seconds since the epoch."""

    id: str
    expires: float

    @property
    def label(self) -> str:
        """Its name in logs: enough to find its requests, not enough to send one."""
        return _hash(self.id)[:12]

    @property
    def header(self) -> str:
        """The value of X-Amzn-SageMaker-New-Session-Id."""
        return f"{self.id}; Expires={datetime.fromtimestamp(self.expires, UTC):%Y-%m-%dT%H:%M:%SZ}"


class SessionStore:
    """The sessions of a container. One instance per process, safe to use from several threads."""

    def __init__(self, folder: Path, seconds: float, most: int, most_bytes: int) -> None:
        """Sessions end after ``seconds``; at most ``most`` are open, with ``most_bytes`` together."""
        self._folder = folder
        self._seconds = seconds
        self._most = most
        self._most_bytes = most_bytes

    def open(self) -> Session:
        """Return a new session without an image. Raises Unavailable at the limit."""
        session = Session(secrets.token_hex(16), float(math.ceil(time.time() + self._seconds)))
        with held(self._folder / _TURN):
            if self._count() >= self._most:
                self._remove_expired()
            if self._count() >= self._most:
                raise Unavailable(f"try again: {self._most} sessions are open, which is the limit")
            replace_file(self._path(session.id), _KEPT.pack(session.expires, 0, 0, 0.0, 0))
        return session

    def find(self, session_id: str) -> Session:
        """Return an open session. Raises UnknownSession, the same for ended and for invented ids."""
        if len(session_id) <= _LONGEST_ID and _ID.fullmatch(session_id):
            with suppress(FileNotFoundError), self._path(session_id).open("rb") as file:
                expires: float = _KEPT.unpack(file.read(_KEPT.size))[0]
                if expires > time.time():
                    return Session(session_id, expires)
        raise UnknownSession(
            f"{HEADER}: expected {NEW}, or the id of an open session; the sent id was never opened, "
            "has expired or was closed"
        )

    def close(self, session: Session) -> None:
        """End a session and remove its image. Raises UnknownSession if it has ended."""
        with held(self._folder / _TURN):
            self.find(session.id)
            self._path(session.id).unlink()

    def check_size(self, width: int, height: int) -> None:
        """Raise TooLarge for an image that exceeds the memory of all sessions."""
        size = _PIXEL * width * height
        if size > self._most_bytes:
            raise TooLarge(
                f"{HEADER}: an image of {width}x{height} takes {_mib(size)} MiB, and all sessions together have "
                f"{_mib(self._most_bytes)} MiB ({MEMORY_SETTING})"
            )

    def keep(
        self,
        session: Session,
        size: tuple[int, int],
        rows: Iterable[bytes | memoryview],
        decode_seconds: float,
        sent_bytes: int,
    ) -> None:
        """Keep an image of ``size`` (width, height), in place of an earlier one; ``rows`` are its RGBX pixels in parts.

        Raises TooLarge if it never fits, Unavailable if it does not fit now, and UnknownSession if the session has
        ended meanwhile.
        """
        width, height = size
        self.check_size(width, height)
        path, length = self._path(session.id), _PIXEL * width * height
        with self._reserved(path, session, length) as (partial, descriptor):
            os.posix_fallocate(descriptor, 0, _KEPT.size + length)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(_KEPT.pack(session.expires, width, height, decode_seconds, sent_bytes))
                file.writelines(rows)
            with held(self._folder / _TURN):
                self.find(session.id)  # otherwise a removed file would reappear
                partial.rename(path)

    def image(self, session: Session) -> KeptImage | None:
        """Return the image of a session, None if there is none. Raises UnknownSession."""
        try:
            kept = mapped(self._path(session.id))
        except FileNotFoundError:
            self.find(session.id)
            raise
        _, width, height, seconds, sent = _KEPT.unpack_from(kept)
        return KeptImage(width, height, kept[_KEPT.size :], seconds, sent) if width else None

    def remove_expired(self) -> None:
        """Remove expired sessions, and files of killed writers; do nothing while another process has the lock."""
        if (turn := hold(self._folder / _TURN)) is not None:
            try:
                self._remove_expired()
            finally:
                release(turn)

    def usage(self) -> tuple[int, int]:
        """Return the number of open sessions, and the bytes of their images; zeros without a folder."""
        try:
            return self._count(), self._bytes()
        except FileNotFoundError:
            return 0, 0

    def _remove_expired(self) -> None:
        now = time.time()
        for path in self._files():
            with path.open("rb") as file:
                expires = _KEPT.unpack(file.read(_KEPT.size))[0]
            if expires <= now:
                path.unlink()
        for partial in self._folder.glob(f"*{PARTIAL}"):
            if (writer := hold(partial, flags=os.O_RDWR)) is not None:
                partial.unlink(missing_ok=True)
                release(writer)

    @contextmanager
    def _reserved(self, path: Path, session: Session, length: int) -> Iterator[tuple[Path, int]]:
        """Yield a file for ``length`` bytes of pixels, which count from now on.

        The old image is removed first if there is no room otherwise.
        """
        partial = path.with_name(f"{path.stem}-{secrets.token_hex(4)}{PARTIAL}")
        with held(self._folder / _TURN):
            self.find(session.id)
            room = self._most_bytes - self._bytes()
            if length > room + _pixel_bytes(path.stat()):
                raise Unavailable(
                    f"try again: the image takes {_mib(length)} MiB, and the images of other sessions leave "
                    f"{_mib(max(0, room))} of {_mib(self._most_bytes)} MiB ({MEMORY_SETTING})"
                )
            if length > room:
                replace_file(path, _KEPT.pack(session.expires, 0, 0, 0.0, 0))
            # Held until it is closed: the file has a living writer.
            descriptor = hold(partial, flags=os.O_RDWR | os.O_CREAT | os.O_EXCL)
            assert descriptor is not None, "the name is random"
            os.ftruncate(descriptor, _KEPT.size + length)
        try:
            yield partial, descriptor
        finally:
            partial.unlink(missing_ok=True)
            release(descriptor)

    def _files(self) -> Iterator[Path]:
        return self._folder.glob(f"*{_SUFFIX}")

    def _count(self) -> int:
        return sum(1 for _ in self._files())

    def _bytes(self) -> int:
        found = 0
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                found += _pixel_bytes(entry.stat()) if entry.name.endswith((_SUFFIX, PARTIAL)) else 0
        return found

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{_hash(session_id)}{_SUFFIX}"


def _hash(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()


def _pixel_bytes(file: os.stat_result) -> int:
    return max(0, file.st_size - _KEPT.size)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.3g}"
