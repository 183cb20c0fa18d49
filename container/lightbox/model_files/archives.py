"""Unpacks a model's archive into a folder of its own, with limits of bytes, members, depth and time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from lightbox.base.errors import BadRequest, DeadlineExceeded, NoRoom, TooLarge
from lightbox.base.machine.memory import available_bytes
from lightbox.base.machine.scarcity import unreadable
from lightbox.base.machine.temporary_storage import is_full, storage_full
from lightbox.base.request_context import RequestContext
from lightbox.model_files.tar_members import FILE, FOLDER, HARD_LINK, BadArchive, Inflated, Member, read_members

ENDINGS = (".tar.gz", ".tgz")
"""Suffixes of models' archives; SageMaker's is ``model.tar.gz``."""
MAX_ENTRIES = 20_000
"""Most files and folders of one model."""
MAX_DEPTH = 32
"""Deepest nesting of folders."""
MOST_BYTES = 4 << 30
"""Most bytes of one model, unpacked."""
MAX_RATIO, FREE_BYTES = 100, 64 << 20
"""Largest ratio of an archive, and bytes that are free: weights do not compress to a hundredth."""
_PIECE = 1 << 20


def unpack(archive: Path, folder: Path, field: str, context: RequestContext, most: int = MOST_BYTES) -> None:
    """Unpack a .tar.gz into a new folder. Permissions are our own; links are not followed.

    ``field`` is the caller's name of the archive. Raises BadRequest, TooLarge, NoRoom and DeadlineExceeded; the folder
    may then hold a part.
    """
    count = _counter(archive, field, most, context, available_bytes())
    try:
        folder.mkdir(parents=True)
        with archive.open("rb") as file:
            _Tree(folder).take(Inflated(file, count))
    except BadArchive as error:
        raise _refusal(field, error) from None
    except OSError as error:
        if is_full(error):
            raise storage_full(f"what the archive of {field} unpacks to") from None
        raise unreadable(f"{field}: the archive cannot be unpacked", error) from None


def most_unpacked(archive: Path) -> int:
    """Return the most bytes that an archive of its size may unpack to."""
    return min(MOST_BYTES, MAX_RATIO * archive.stat().st_size + FREE_BYTES)


def unpacked_bytes(archive: Path, field: str, context: RequestContext) -> int:
    """Return the bytes that an archive unpacks to, without unpacking it. Raises as ``unpack`` does."""
    total = 0
    try:
        with archive.open("rb") as file:
            stream = Inflated(file, _counter(archive, field, MOST_BYTES, context, None))
            while piece := stream.read(_PIECE):
                total += len(piece)
    except BadArchive as error:
        raise _refusal(field, error) from None
    except OSError as error:
        raise unreadable(f"{field}: the archive cannot be read", error) from None
    return total


def _refusal(field: str, error: BadArchive) -> BadRequest:
    return BadRequest(f"{field}: the archive {error}")


def _counter(archive: Path, field: str, most: int, context: RequestContext, free: int | None) -> Callable[[int], None]:
    """Return a function that counts unpacked bytes, and raises at a limit, beyond ``free``, or at the deadline."""
    archive_bytes = archive.stat().st_size
    ratio = MAX_RATIO * archive_bytes + FREE_BYTES
    total = 0

    def count(size: int) -> None:
        nonlocal total
        total += size
        if total > most:
            raise TooLarge(f"{field}: the archive unpacks to more than {most >> 20:,} MiB")
        if total > ratio:
            raise TooLarge(
                f"{field}: the archive of {archive_bytes:,} bytes unpacks to more than {ratio >> 20:,} MiB, "
                f"{MAX_RATIO} times its size and {FREE_BYTES >> 20} MiB"
            )
        if free is not None and total > free:
            what = f"{field}: the archive unpacks to more than the memory that is left"
            raise NoRoom(what, f"{free >> 20} MiB were")
        if context.remaining() <= 0:
            raise DeadlineExceeded(f"{field}: the archive was not unpacked within {context.allowed_seconds:g} s")

    return count


class _Tree:
    """A new folder with the unpacked files. It never holds a symbolic link, so no name can lead outside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = {PurePosixPath()}
        self._files: set[PurePosixPath] = set()

    def take(self, stream: Inflated) -> None:
        """Write all members, and read to the end of the file, where its checksum is."""
        for member in read_members(stream):
            self._write(member, stream)
        while stream.read(_PIECE):
            pass

    def _write(self, member: Member, stream: Inflated) -> None:
        if member.kind not in (FILE, FOLDER, HARD_LINK):
            expected = "expected files, folders and hard links (tar --dereference)"
            raise BadArchive(f"holds {member.name[:200]!r}, which is {member.kind}: {expected}")
        name = _inside(member.name)
        if member.kind == FOLDER:
            self._make_folders(name)
            return
        self._make_folders(name.parent)
        path = self._folder / name
        if name in self._files:
            path.unlink()  # as in tar, the last one of a name counts
        self._count(self._files, name)
        if member.kind == FILE:
            _write_file(path, member, stream)
        else:
            self._link(path, _inside(member.link))

    def _link(self, path: Path, target: PurePosixPath) -> None:
        if target not in self._files:
            raise BadArchive(f"holds a hard link to {str(target)!r}, which is not an earlier file of it")
        os.link(self._folder / target, path)

    def _make_folders(self, name: PurePosixPath) -> None:
        for folder in (*reversed(name.parents), name):
            if folder not in self._folders:
                self._count(self._folders, folder)
                (self._folder / folder).mkdir()

    def _count(self, of_a_kind: set[PurePosixPath], name: PurePosixPath) -> None:
        of_a_kind.add(name)
        if len(self._files) + len(self._folders) > MAX_ENTRIES:
            raise BadArchive(f"holds more than {MAX_ENTRIES:,} files and folders")


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise BadArchive(f"holds {name[:200]!r}, which leads out of it")
    if len(path.parts) > MAX_DEPTH:
        raise BadArchive(f"holds folders more than {MAX_DEPTH} deep")
    return path


def _write_file(path: Path, member: Member, stream: Inflated) -> None:
    mode = 0o755 if member.executable else 0o644
    remaining = member.size
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        while remaining:
            piece = stream.read(min(remaining, _PIECE))
            if not piece:
                raise BadArchive("ends within a member")
            file.write(piece)
            remaining -= len(piece)
