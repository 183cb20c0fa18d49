"""Sessions with one image each, in files that all workers share; the supervisor removes expired ones.

A session is one file in a private folder, in memory (/dev/shm) if there is room. Its name is a hash of the session's
id, so that neither the folder nor a log reveals an id. It begins with the expiry time and the size of the image; raw
RGBX pixels follow, which readers map. Files are replaced atomically by renaming. Counting, creating and replacing files
needs the folder's lock; reading needs none.
"""

from __future__ import annotations

import hashlib
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

from lightbox.base.errors import BadRequest, TooLarge, Unavailable
from lightbox.base.machine.shared_files import PARTIAL, held, hold, mapped, release, replace_file

FOLDER = "sessions"
"""Name of the folder, or of a link to it, in the run directory."""
HEADER = "X-Amzn-SageMaker-Session-Id"
NEW, CLOSE = "NEW_SESSION", "CLOSE"
MEMORY_SETTING = "a quarter of LIGHTBOX_REQUEST_MEMORY_MB"
MAX_SESSIONS = 1000

_ID = re.compile(r"[a-zA-Z0-9](?:-*[a-zA-Z0-9])*")
"""The form of ids in botocore's model of the API."""
_LONGEST_ID = 256
_KEPT = struct.Struct("<d16sIIdQ")
"""Expiry in seconds of the monotonic clock, owner, width, height, seconds of decoding, bytes of the original."""
_KEY = b"k"
_PIXEL = 4
"""Bytes of a pixel, as the compiled resize reads them without a copy."""
_SUFFIX, _TURN = ".session", "turn"


def owner_of(key: str | None, address: str = "") -> bytes:
    """Return the owner of a caller's sessions: the key with this name, or for None the address."""
    kind, name = (b"a", address) if key is None else (_KEY, key)
    return kind + hashlib.sha256(name.encode(errors="replace")).digest()[:15]


ANYONE = owner_of(None)


class UnknownSession(BadRequest):
    """No session of this id is open for the caller: it never existed, has expired, was closed, or is another key's."""

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
    """An open session: its id, its end in seconds of the monotonic clock, and its owner.

    All processes of a machine share that clock, and no step of the wall clock ends a session.
    """

    id: str
    expires: float
    owner: bytes = ANYONE

    @property
    def label(self) -> str:
        """Its name in logs: enough to find its requests, not enough to send one."""
        return _hash(self.id)[:12]

    @property
    def header(self) -> str:
        """The value of X-Amzn-SageMaker-New-Session-Id."""
        date = datetime.fromtimestamp(time.time() + self.expires - time.monotonic(), UTC)
        return f"{self.id}; Expires={date:%Y-%m-%dT%H:%M:%SZ}"


class SessionStore:
    """The sessions of a container. One instance per process, safe to use from several threads."""

    def __init__(self, folder: Path, seconds: float, most: int, most_bytes: int) -> None:
        """Sessions end after ``seconds``; at most ``most`` are open, with ``most_bytes``; an owner has half of both."""
        self._folder = folder
        self._seconds = seconds
        self._most = most
        self._most_bytes = most_bytes

    def open(self, owner: bytes = ANYONE) -> Session:
        """Return a new session without an image. Raises Unavailable at the limits."""
        session, half = Session(secrets.token_hex(16), time.monotonic() + self._seconds, owner), self._most // 2
        with held(self._folder / _TURN):
            if self._count() >= half:
                self._remove_expired()
            if (count := self._count()) >= self._most:
                raise Unavailable(f"try again: {self._most} sessions are open, which is the limit")
            if count >= half and self._held_by(owner)[0] >= half:
                raise Unavailable(f"try again: {half} sessions of this caller are open, which is its half of the limit")
            replace_file(self._path(session.id), _empty(session))
        return session

    def find(self, session_id: str, owner: bytes = ANYONE) -> Session:
        """Return an open session, with a key only the key's own: addresses of callers change.

        Raises UnknownSession, the same for ended, for invented and for others' ids.
        """
        if len(session_id) <= _LONGEST_ID and _ID.fullmatch(session_id):
            with suppress(FileNotFoundError):
                expires, owned_by = _read_head(self._path(session_id))
                is_allowed = owned_by == owner or _KEY not in (owned_by[:1], owner[:1])
                if expires > time.monotonic() and is_allowed:
                    return Session(session_id, expires, owned_by)
        raise UnknownSession(
            f"{HEADER}: expected {NEW}, or the id of an open session; the sent id was never opened, "
            "has expired or was closed"
        )

    def close(self, session: Session) -> None:
        """End a session and remove its image. Raises UnknownSession if it has ended."""
        with held(self._folder / _TURN):
            self.find(session.id, session.owner)
            self._path(session.id).unlink()

    def check_size(self, width: int, height: int) -> None:
        """Raise TooLarge for an image that exceeds the memory of one caller's sessions."""
        size = _PIXEL * width * height
        if size > self._most_bytes // 2:
            raise TooLarge(
                f"{HEADER}: an image of {width}x{height} takes {_mib(size)} MiB, and the sessions of a caller together "
                f"have {_mib(self._most_bytes // 2)} MiB (half of {MEMORY_SETTING})"
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
                file.write(_KEPT.pack(session.expires, session.owner, width, height, decode_seconds, sent_bytes))
                file.writelines(rows)
            with held(self._folder / _TURN):
                self.find(session.id, session.owner)  # otherwise a removed file would reappear
                partial.rename(path)

    def image(self, session: Session) -> KeptImage | None:
        """Return the image of a session, None if there is none. Raises UnknownSession."""
        try:
            kept = mapped(self._path(session.id))
        except FileNotFoundError:
            self.find(session.id, session.owner)
            raise
        _, _, width, height, seconds, sent = _KEPT.unpack_from(kept)
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
        now = time.monotonic()
        for path in self._files():
            if _read_head(path)[0] <= now:
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
        partial = path.with_name(f"{path.stem}-{session.owner.hex()}-{secrets.token_hex(4)}{PARTIAL}")
        with held(self._folder / _TURN):
            self.find(session.id, session.owner)
            half, room = self._most_bytes // 2, self._most_bytes - self._bytes()
            if length > room - half:
                room = min(room, half - self._held_by(session.owner)[1])
            if length > room + _pixel_bytes(path.stat()):
                raise Unavailable(
                    f"try again: the image takes {_mib(length)} MiB, more than the images of other sessions leave to a "
                    f"caller, who may have half of the memory of all ({MEMORY_SETTING})"
                )
            if length > room:
                replace_file(path, _empty(session))
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

    def _held_by(self, owner: bytes) -> tuple[int, int]:
        """Return the number of an owner's sessions, and the bytes of their images, also of those being written."""
        own = [path for path in self._files() if _read_head(path)[1] == owner]
        size = 0
        for path in (*own, *self._folder.glob(f"*-{owner.hex()}-*{PARTIAL}")):
            with suppress(FileNotFoundError):
                size += _pixel_bytes(path.stat())
        return len(own), size

    def _bytes(self) -> int:
        found = 0
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                found += _pixel_bytes(entry.stat()) if entry.name.endswith((_SUFFIX, PARTIAL)) else 0
        return found

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{_hash(session_id)}{_SUFFIX}"


def _empty(session: Session) -> bytes:
    """Return the content of a session's file without an image."""
    return _KEPT.pack(session.expires, session.owner, 0, 0, 0.0, 0)


def _read_head(path: Path) -> tuple[float, bytes]:
    """Return expiry and owner of a session's file. Raises FileNotFoundError."""
    with path.open("rb") as file:
        expires, owner, *_ = _KEPT.unpack(file.read(_KEPT.size))
    return expires, owner


def _hash(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()


def _pixel_bytes(file: os.stat_result) -> int:
    return max(0, file.st_size - _KEPT.size)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.3g}"
