"""The members of an npz file (a zip file of npy files), with bounds on all that a zip file may declare."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from lightbox.errors import MalformedBody, TooLarge
from lightbox.telemetry.clock import RequestClock

_MAGIC = b"PK\x03\x04"
_END = b"PK\x05\x06"
_END_SIZE, _MAX_COMMENT = 22, 1 << 16
_LOCATOR_64, _LOCATOR_64_SIZE = b"PK\x06\x07", 20
_MAX_DIRECTORY = 1 << 16
MAX_MEMBERS = 256


def is_zip(body: bytes) -> bool:
    """Whether a body begins as a zip file with at least one member does."""
    return body.startswith(_MAGIC)


def read_members(body: bytes, max_mb: int, clock: RequestClock) -> dict[str, bytes]:
    """Return the uncompressed members by name, without ``.npy``.

    Raises TooLarge before more than ``max_mb`` MiB have been unpacked, MalformedBody for a file that is
    broken or encrypted, or uses another compression than numpy does.
    """
    _check_directory(body)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _unpacked(archive, len(body), max_mb, clock)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise MalformedBody(f"npz: the file cannot be read: {str(error)[:100]}") from None
    except (ValueError, KeyError, struct.error) as error:
        raise MalformedBody(f"npz: the file cannot be read: {str(error)[:100]}") from None


def _check_directory(body: bytes) -> None:
    """The list of members is read as a whole, into objects of some hundred bytes each."""
    end = body.rfind(_END, max(0, len(body) - _END_SIZE - _MAX_COMMENT))
    if end < 0 or end + _END_SIZE > len(body):
        raise MalformedBody("npz: the file is truncated")
    if body[max(0, end - _LOCATOR_64_SIZE) :].startswith(_LOCATOR_64):
        raise MalformedBody("npz: expected a zip file without the 64-bit directory of very large ones")
    members, size = struct.unpack_from("<HI", body, end + 10)
    if members > MAX_MEMBERS or size > _MAX_DIRECTORY:
        raise TooLarge(f"npz: expected at most {MAX_MEMBERS} arrays, got {members}")


def _unpacked(archive: zipfile.ZipFile, packed: int, max_mb: int, clock: RequestClock) -> dict[str, bytes]:
    left = limit = max_mb << 20
    members: dict[str, bytes] = {}
    for info in archive.infolist():
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise MalformedBody("npz: expected members that are stored or deflated")
        # A member is read up to the size that it declares, and no further.
        unpacked = limit - left + min(info.file_size, left + 1)
        clock.check()
        clock.memory.weigh(unpacked)
        clock.memory.hold(packed + 2 * unpacked, "npz")
        with archive.open(info) as member:
            data = member.read(left + 1)
        left -= len(data)
        if left < 0:
            raise TooLarge(f"npz: the arrays unpack to more than LIGHTBOX_MAX_BODY_MB={max_mb} MiB")
        members[info.filename.removesuffix(".npy")] = data
    return members
