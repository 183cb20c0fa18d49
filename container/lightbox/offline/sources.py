"""Sources of pictures: image files, shards, tables and lists, in a folder or in S3.

A source is one file or all files below a folder. The suffix of a name decides how the file is read.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import IO, Any, Literal

import orjson
from typing_extensions import override

from lightbox.client.pictures import IMAGE_ENDINGS, counted
from lightbox.core.errors import LightboxError
from lightbox.offline.files import S3_SCHEME, AwsError, Files, at, refuse, split
from lightbox.offline.rows import reason

SHARD, TABLE, LISTS = ".tar", ".parquet", (".jsonl", ".manifest")
ROWS, NAMES = 64, 1000
"""Rows of a table that are read at a time, and names that wait together: as many as S3 lists at a time."""
Item = tuple[str, Callable[[], bytes]]
"""A path, and a function that reads its picture."""


class SourceError(Exception):
    """A source, or a file of it, cannot be read; the message names it and the reason."""


class Source:
    """The pictures of one place, without the files that ``skip`` selects, such as a target in the same folder.

    ``problems`` describes files that cannot be read completely; ``others`` counts files of other kinds. Both are
    complete after ``items``. ``total`` is the number of pictures, once the listing has ended; it stays None with shards
    and tables in S3, which would have to be downloaded. ``column`` names a table's column of pictures; a picture of
    more than ``most`` bytes is an error.
    """

    def __init__(
        self,
        place: str,
        column: str | None = None,
        skip: Callable[[str], bool] = lambda name: False,
        most: int = sys.maxsize,
    ) -> None:
        self.place = place
        self.problems: list[str] = []
        self.found, self.others = 0, 0
        self.total: int | None = None
        self._column, self._skip, self._most = column, skip, most
        self._files: Files
        if _ending(place) in (SHARD, TABLE, *LISTS):
            self._files, name = split(place)
            self._only: str | None = name
            if not self._files.exists(name):
                raise SourceError(f"{place}: there is no such file")
        elif place.startswith(S3_SCHEME) or Path(place).is_dir():
            self._files, self._only = at(place), None
        elif Path(place).exists():
            kinds = ", ".join((SHARD, TABLE, *LISTS))
            raise SourceError(f"{place}: expected a folder, or a file that ends in {kinds}")
        else:
            raise SourceError(f"{place}: there is no such folder")

    def items(self) -> Iterator[Item]:
        """Yield the pictures before reading: ``read`` reads one, here or in another process.

        Raises SourceError if no picture can be read.
        """
        with _as_source_errors():
            yield from self._items()

    def _count_in(self, name: str) -> int:
        with self._files.open(name) as file:
            if self._kind(name) == SHARD:
                with _shard(file, "r:") as shard:
                    return sum(_is_picture(member) for member in shard)
            return _table(file).metadata.num_rows if self._kind(name) == TABLE else sum(1 for _ in file)

    def _names(self) -> Iterator[str]:
        """Yield the names, which a thread lists ahead; compressed, one that waits takes up to 55 bytes."""
        waiting: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        threading.Thread(target=self._list, args=[waiting.put], daemon=True).start()
        while isinstance(batch := waiting.get(), bytes):
            yield from json.loads(zlib.decompress(batch))
        if batch:
            raise batch

    def _list(self, put: Callable[[bytes | Exception | None], None]) -> None:
        names = iter([self._only]) if self._only else (name for name in self._files.names() if not self._skip(name))
        batch, pictures, others = list[str](), 0, list[str]()
        failure: Exception | None = None
        try:
            try:
                for name in names:
                    kind = self._kind(name)
                    pictures += kind in IMAGE_ENDINGS
                    if kind and kind not in IMAGE_ENDINGS:
                        others.append(name)
                    batch.append(name)
                    if len(batch) == NAMES:
                        put(_packed(batch))
                        batch = []
            finally:
                put(_packed(batch))
        except Exception as error:
            failure = error
        finally:
            put(failure)
        is_to_download = self.place.startswith(S3_SCHEME) and any(_ending(name) not in LISTS for name in others)
        if failure is None and not is_to_download:
            with suppress(*_damages()):  # ``items`` reports these
                self.total = pictures + sum(map(self._count_in, others))

    def _kind(self, name: str) -> str | None:
        """Return the suffix that decides how a file is read, None for other files. A list counts only as the source."""
        ending = _ending(name)
        return ending if ending in (*IMAGE_ENDINGS, SHARD, TABLE) or (self._only and ending in LISTS) else None

    def _items(self) -> Iterator[Item]:
        escaped = set[str]()
        for name in self._readable_names():
            kind, path = self._kind(name), as_text(name)
            if kind is None:
                self.others += 1
            elif path in escaped:
                self.problems.append(f"{path}: is there again; one has a row")
            elif kind not in IMAGE_ENDINGS:
                yield from self._inside(name, kind)
            else:
                self.found += 1
                yield path, partial(self._files.read, name, self._most)
            if "\\" in path:
                escaped.add(path)
        if not self.found and not self.problems:
            raise SourceError(f"{self.place}: holds no pictures; {counted(self.others)}")

    def _readable_names(self) -> Iterator[str]:
        try:
            yield from self._names()
        except AwsError:
            raise
        except OSError as error:
            self.problems.append(f"{as_text(str(error.filename or self.place))}: cannot be read: {reason(error)}")

    def _inside(self, name: str, kind: str) -> Iterator[Item]:
        """Yield the items of a shard, a table or a list, as far as it can be read."""
        inside = {SHARD: self._in_shard, TABLE: self._in_table}.get(kind, self._in_list)
        before = self.found
        try:
            for item in inside(name):
                self.found += 1
                yield item
        except AwsError:
            raise
        except _damages() as error:
            read_before = self.found - before
            self.problems.append(f"{as_text(name)}: cannot be read after {read_before} pictures: {error}")

    def _in_shard(self, name: str) -> Iterator[Item]:
        # In S3 objects may be below the name of a shard: they and their pictures have a row, not members of their path.
        below = [] if self._only else list(self._files.names(name))
        members = {path for other in below for path in (as_text(other), *self._paths_in(other))}
        with self._files.open(name) as file, _shard(file, "r:*") as shard:
            for member in shard:
                if not _is_picture(member):
                    continue
                path = as_text(f"{name}/{member.name}")
                if path in members:
                    self.problems.append(f"{path}: is there again; one has a row")
                    continue
                members.add(path)
                content = shard.extractfile(member) if member.isfile() else None
                yield path, self._held(content.read, member.size) if content else _link

    def _paths_in(self, name: str) -> Iterator[str]:
        """Yield the paths of the pictures in a shard, as far as it can be read; none for other files."""
        if _ending(name) == SHARD:
            with suppress(*_damages()), self._files.open(name) as file, _shard(file, "r:*") as shard:
                yield from (as_text(f"{name}/{member.name}") for member in shard if _is_picture(member))

    def _in_table(self, name: str) -> Iterator[Item]:
        with self._files.open(name) as file:
            table = _table(file)
            column = _column(table.schema_arrow, self._column)
            number = 0
            for batch in batches(table, ROWS, [column]):
                for content in _first_column(batch):
                    yield as_text(f"{name}/{number}"), self._held(partial(_same, content), len(content))
                    number += 1

    def _held(self, content: Callable[[], bytes], size: int) -> Callable[[], bytes]:
        """Return what reads a picture inside a file. It is read here, unless it is too large."""
        return partial(refuse, self._most) if size > self._most else partial(_same, content())

    def _in_list(self, name: str) -> Iterator[Item]:
        listed = set[str]()
        buckets: dict[str, Files] = {}
        """Those of the listed pictures: making a client takes as long as a picture."""
        with self._files.open(name) as file:
            for number, line in enumerate(file, start=1):
                place = _listed(line)
                if place is None:
                    expected = 'expected {"source-ref": "s3://..."} or {"path": "..."}'
                    self.problems.append(f"{as_text(name)}: line {number}: {expected}, got {line[:80]!r}")
                elif place not in listed:  # one row for each picture
                    listed.add(place)
                    files, inside = self._files, place
                    if place.startswith(S3_SCHEME):
                        bucket, _, inside = place.removeprefix(S3_SCHEME).partition("/")
                        try:
                            files = buckets.get(bucket) or buckets.setdefault(bucket, at(f"{S3_SCHEME}{bucket}"))
                        except AwsError as error:
                            self.problems.append(f"{as_text(name)}: line {number}: {error}")
                            continue
                        if not inside:
                            self.problems.append(f"{as_text(name)}: line {number}: {place} names no object")
                            continue
                    yield place, partial(files.read, inside, self._most)


def _shard(file: IO[bytes], mode: Literal["r:", "r:*"]) -> tarfile.TarFile:
    """Open a shard, which may be several, joined: what follows after the end of one is read too."""
    return tarfile.open(fileobj=file, mode=mode, tarinfo=_Whole, ignore_zeros=True)


class _Whole(tarfile.TarInfo):
    """A member of a shard. tarfile silently passes over a damaged or truncated header; this class raises."""

    @classmethod
    @override
    def fromtarfile(cls, tarfile: Any) -> Any:
        try:
            member = super().fromtarfile(tarfile)
        except _DAMAGED as error:
            if isinstance(error, _EMPTY) and getattr(tarfile, "has_ended", False):
                raise
            raise SourceError(f"the shard is damaged or cut off: {error}") from error
        except _END:
            tarfile.has_ended = True
            raise
        tarfile.has_ended = False
        return member


_END, _EMPTY = tarfile.EOFHeaderError, tarfile.EmptyHeaderError  # type: ignore[attr-defined]
_DAMAGED = (tarfile.TruncatedHeaderError, tarfile.InvalidHeaderError, _EMPTY)  # type: ignore[attr-defined]


def as_text(name: str) -> str:
    """Return a file name as valid text, with other bytes escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def read(item: Item) -> tuple[str, bytes | Exception]:
    """Return path and content of a picture, or the exception of reading it. Raises SourceError if S3 fails."""
    path, content = item
    try:
        with _as_source_errors():
            return path, content()
    except (LightboxError, OSError, ValueError, MemoryError) as error:  # ValueError: an impossible name
        return path, error


@contextmanager
def _as_source_errors() -> Iterator[None]:
    try:
        yield
    except AwsError as error:
        raise SourceError(str(error)) from error


def _same(content: bytes) -> bytes:
    return content


def _link() -> bytes:
    raise OSError("a link in a shard; pack it with tar --dereference --hard-dereference")


def _packed(names: list[str]) -> bytes:
    return zlib.compress(json.dumps(names).encode(), level=1)


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _is_picture(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a picture, or a link to one."""
    is_hidden = PurePosixPath(member.name).name.startswith(".")
    is_of_files = member.isfile() or member.islnk() or member.issym()
    return is_of_files and not is_hidden and _ending(member.name) in IMAGE_ENDINGS


def _listed(line: bytes) -> str | None:
    try:
        found = orjson.loads(line)
        place = found.get("source-ref", found.get("path"))
    except (ValueError, AttributeError):
        return None
    return str(place) if isinstance(place, str) and place else None


def _table(file: IO[bytes]) -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise SourceError(NEEDS_PYARROW) from error
    return pyarrow.parquet.ParquetFile(file, pre_buffer=False)  # which would keep what has been read


def batches(table: Any, rows: int = 1 << 16, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield a table's batches by row group: pyarrow keeps the groups that it has read until the iteration ends."""
    for group in range(table.num_row_groups):
        yield from table.iter_batches(rows, row_groups=[group], columns=columns)


NEEDS_PYARROW = "Parquet needs the package pyarrow: pip install 'lightbox-serve[parquet]'"


def _column(schema: Any, wanted: str | None) -> str:
    """Return the column of bytes, such as ``image``, or ``image.bytes`` of a structure, as Hugging Face writes it."""
    from pyarrow.types import is_binary, is_large_binary, is_struct

    names = [field.name for field in schema if is_binary(field.type) or is_large_binary(field.type)]
    for field in schema:
        if is_struct(field.type):
            names += [f"{field.name}.{part.name}" for part in field.type if is_binary(part.type)]
    if wanted in names or (wanted is None and len(names) == 1):
        return wanted or str(names[0])
    expected = "one column of bytes, or its name with --column" if wanted is None else f"a column of bytes {wanted!r}"
    had = ", ".join(f"{field.name} ({field.type})" for field in schema)
    raise SourceError(f"expected {expected}; the table has {had}")


def _first_column(batch: Any) -> Iterator[bytes]:
    """Yield the values of a batch's one column, or of its one column's one part, with null as no bytes."""
    import pyarrow

    return (value.as_py() or b"" for value in pyarrow.Table.from_batches([batch]).flatten().column(0))


def _damages() -> tuple[type[Exception], ...]:
    """Return the exceptions of a damaged shard or table."""
    found = (SourceError, OSError, tarfile.TarError, EOFError, zlib.error)
    try:
        from pyarrow import ArrowException
    except ModuleNotFoundError:
        return found
    return (*found, ArrowException)
