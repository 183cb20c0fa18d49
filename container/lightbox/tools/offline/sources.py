"""Sources of images: image files, shards, tables and lists, in a folder or in S3.

A source is one file or all files below a folder. The suffix of a name decides how the file is read.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import IO, Any

import orjson
from typing_extensions import override

from lightbox.base.errors import LightboxError
from lightbox.model_files.archives import FREE_BYTES, MAX_RATIO
from lightbox.model_files.tar_members import (
    FILE,
    HARD_LINK,
    SYMBOLIC_LINK,
    BadArchive,
    Inflated,
    Member,
    Stream,
    read_members,
)
from lightbox.tools.client.image_files import PICTURE_ENDINGS, counted
from lightbox.tools.offline.parquet_pages import check_pages
from lightbox.tools.offline.rows import reason
from lightbox.tools.offline.storage import S3_SCHEME, AwsError, Files, Outside, at, refuse, split

SHARD, TABLE, LISTS = ".tar", ".parquet", (".jsonl", ".manifest")
NAMES = 1000
"""Names that wait together: as many as S3 lists at a time."""
MOST_LINE, MOST_PROBLEMS = 1 << 20, 1000
"""Bytes of a line of a list, and problems that are kept in words."""
_SHOWN = 300
Item = tuple[str, Callable[[], bytes]]
"""A path, and a function that reads its image."""


class SourceError(Exception):
    """A source, or a file of it, cannot be read; the message names it and the reason."""


class Source:
    """The images of one place, without the files that ``skip`` selects, such as a target in the same folder.

    ``problems`` describes files that cannot be read completely; ``others`` counts files of other kinds. Both are
    complete after ``items``. ``total`` is the number of images, once the listing has ended; it stays None with shards
    and tables in S3, which would have to be downloaded. ``column`` names a table's column of images; an image of
    more than ``most`` bytes is an error. So is one outside the folder of the source, or the bucket of a list, which a
    link or a list names, except with ``outside``.
    """

    def __init__(
        self,
        place: str,
        column: str | None = None,
        skip: Callable[[str], bool] = lambda name: False,
        most: int = sys.maxsize,
        outside: bool = False,
    ) -> None:
        self.place = place
        self.problems: list[str] = []
        self.more_problems = 0
        """How many more there are than ``problems`` has."""
        self.found, self.others = 0, 0
        self.total: int | None = None
        self._column, self._skip, self._most, self._outside = column, skip, most, outside
        self._only: str | None = None
        if _ending(place) in (SHARD, TABLE, *LISTS, *PICTURE_ENDINGS) and not Path(place).is_dir():
            parent, self._only = split(place)
            self._given, self._files = at(parent), at(parent, outside)
            if not self._given.exists(self._only):
                raise SourceError(f"{place}: there is no such file")
        elif place.startswith(S3_SCHEME) or Path(place).is_dir():
            self._given = self._files = at(place, outside)
        elif Path(place).exists():
            kinds = ", ".join((SHARD, TABLE, *LISTS))
            raise SourceError(f"{place}: expected a folder, a picture, or a file that ends in {kinds}")
        else:
            raise SourceError(f"{place}: there is no such folder")

    def items(self) -> Iterator[Item]:
        """Yield the images before reading: ``read`` reads one, here or in another process.

        Raises SourceError if no image can be read.
        """
        with _as_source_errors():
            yield from self._items()

    def _count_in(self, name: str) -> int:
        with self._open(name) as file:
            if self._kind(name) == SHARD:
                if _is_gzip(file):
                    raise SourceError("it would have to be inflated")
                return sum(1 for _ in _names_in(file))
            return _table(file).metadata.num_rows if self._kind(name) == TABLE else sum(1 for _ in _lines(file))

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
        batch, images, others = list[str](), 0, list[str]()
        failure: Exception | None = None
        try:
            try:
                for name in names:
                    kind = self._kind(name)
                    images += kind in PICTURE_ENDINGS
                    if kind and kind not in PICTURE_ENDINGS:
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
            with suppress(Exception):  # ``items`` reports these
                self.total = images + sum(map(self._count_in, others))

    def _open(self, name: str) -> IO[bytes]:
        """Open a shard, a table or a list; the one that is the source may be a link to anywhere."""
        return (self._given if self._only else self._files).open(name)

    def _report(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more_problems += 1

    def _kind(self, name: str) -> str | None:
        """Return the suffix that decides how a file is read, None for other files. A list counts only as the source."""
        ending = _ending(name)
        return ending if ending in (*PICTURE_ENDINGS, SHARD, TABLE) or (self._only and ending in LISTS) else None

    def _items(self) -> Iterator[Item]:
        escaped = set[str]()
        for name in self._readable_names():
            kind, path = self._kind(name), as_text(name)
            if kind is None:
                self.others += 1
            elif path in escaped:
                self._report(f"{path}: is there again; one has a row")
            elif kind not in PICTURE_ENDINGS:
                yield from self._inside(name, kind)
            else:
                self.found += 1
                yield path, partial((self._given if self._only else self._files).read, name, self._most)
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
            self._report(f"{as_text(str(error.filename or self.place))}: cannot be read: {reason(error)}")

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
        except Exception as error:  # whatever a damaged file raises: the others are answered
            read_before = self.found - before
            self._report(f"{as_text(name)}: cannot be read after {read_before} pictures: {_said(error)}")

    def _in_shard(self, name: str) -> Iterator[Item]:
        # In S3 objects may be below the name of a shard: they and their pictures have a row, not members of their path.
        below = [] if self._only else list(self._files.names(name))
        members = {path for other in below for path in (as_text(other), *self._paths_in(other))}
        with self._open(name) as file:
            for member, stream in _shard(file):
                path = as_text(f"{name}/{member.name}")
                if path in members:
                    self._report(f"{path}: is there again; one has a row")
                    stream.skip(member.size)
                    continue
                members.add(path)
                if member.kind != FILE:
                    yield path, _link
                elif member.size > self._most:
                    stream.skip(member.size)
                    yield path, partial(refuse, self._most)
                else:
                    content = stream.exactly(member.size)
                    if len(content) < member.size:
                        raise BadArchive("ends within a member")
                    yield path, partial(_same, content)

    def _paths_in(self, name: str) -> Iterator[str]:
        """Yield the paths of the images in a shard, as far as it can be read; none for other files."""
        if _ending(name) == SHARD:
            with suppress(Exception), self._open(name) as file:
                yield from (as_text(f"{name}/{member}") for member in _names_in(file))

    def _in_table(self, name: str) -> Iterator[Item]:
        with self._open(name) as file:
            table = _table(file)
            column = _column(table.schema_arrow, self._column)
            # One row at a time: a small file may have the same large picture in each.
            found = batches(table, 1, [column], partial(_check_pages, file, column))
            for number, batch in enumerate(batch for batch in found if batch.num_rows):
                yield as_text(f"{name}/{number}"), self._cell(batch)

    def _cell(self, batch: Any) -> Callable[[], bytes]:
        """Return what reads the one cell of a batch, or of its one column's one part; null has no bytes."""
        import pyarrow

        content = pyarrow.Table.from_batches([batch]).flatten().column(0)[0].as_buffer()
        if content is not None and content.size > self._most:
            return partial(refuse, self._most)
        return partial(_same, b"" if content is None else content.to_pybytes())

    def _in_list(self, name: str) -> Iterator[Item]:
        listed = set[str]()
        buckets: dict[str, Files] = {}
        """Those of the listed images: making a client takes as long as an image."""
        with self._open(name) as file:
            for number, line in enumerate(_lines(file), start=1):
                place = _listed(line)
                if place is None:
                    expected = 'expected {"source-ref": "s3://..."} or {"path": "..."}'
                    self._report(f"{as_text(name)}: line {number}: {expected}, got {line[:80]!r}")
                elif place not in listed:  # one row for each picture
                    listed.add(place)
                    files, inside = self._files, place
                    if place.startswith(S3_SCHEME):
                        bucket, _, inside = place.removeprefix(S3_SCHEME).partition("/")
                        if not (self._outside or f"{place}/".startswith(_bucket(self.place))):
                            yield place, _in_other_bucket
                            continue
                        try:
                            files = buckets.get(bucket) or buckets.setdefault(bucket, at(f"{S3_SCHEME}{bucket}"))
                        except AwsError as error:
                            self._report(f"{as_text(name)}: line {number}: {error}")
                            continue
                        if not inside:
                            self._report(f"{as_text(name)}: line {number}: {place} names no object")
                            continue
                    yield place, partial(files.read, inside, self._most)


class _Plain(Stream):
    """The content of a file that is not compressed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @override
    def read(self, size: int) -> bytes:
        return self._file.read(size)

    @override
    def skip(self, size: int) -> None:
        if size:
            try:
                self._file.seek(size - 1, os.SEEK_CUR)
            except (OSError, OverflowError):  # a place where no file can be that long
                raise BadArchive("ends within a member") from None
            super().skip(1)  # a file may end before


def _shard(file: IO[bytes]) -> Iterator[tuple[Member, Stream]]:
    """Yield the images of a shard, with the stream from which their content has to be read.

    A shard may be several, joined: what follows after the end of one is read too.
    """
    stream = Inflated(file, _counter(os.fstat(file.fileno()).st_size)) if _is_gzip(file) else _Plain(file)
    for member in read_members(stream, joined=True):
        if _is_image(member):
            yield member, stream
        else:
            stream.skip(member.size)


def _names_in(file: IO[bytes]) -> Iterator[str]:
    for member, stream in _shard(file):
        stream.skip(member.size)
        yield member.name


def _is_gzip(file: IO[bytes]) -> bool:
    begin = file.read(2)
    file.seek(0)
    return begin == b"\x1f\x8b"


def _counter(size: int) -> Callable[[int], None]:
    """Return a function that counts the inflated bytes of a shard: images do not compress to a hundredth."""
    remaining = MAX_RATIO * size + FREE_BYTES

    def count(more: int) -> None:
        nonlocal remaining
        remaining -= more
        if remaining < 0:
            raise BadArchive(f"inflates to more than {MAX_RATIO} times its size")

    return count


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise SourceError(f"a line is longer than {MOST_LINE:,} bytes")
        yield line


def as_text(name: str) -> str:
    """Return a file name as valid text, with other bytes escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def read(item: Item) -> tuple[str, bytes | Exception]:
    """Return path and content of an image, or the exception of reading it. Raises SourceError if S3 fails."""
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


def _in_other_bucket() -> bytes:
    raise Outside("is not in the list's bucket")


def _bucket(place: str) -> str:
    """Return the bucket of an address with a slash at its end, for a path something that no address begins with."""
    return S3_SCHEME + place.removeprefix(S3_SCHEME).partition("/")[0] + "/" if place.startswith(S3_SCHEME) else "\0"


def _said(error: Exception) -> str:
    """Return an exception's message, which may hold a part of a file."""
    text = f"the shard {error}" if isinstance(error, BadArchive) else str(error)
    return text[:_SHOWN] or type(error).__name__


def _packed(names: list[str]) -> bytes:
    return zlib.compress(json.dumps(names).encode(), level=1)


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _is_image(member: Member) -> bool:
    """Return whether a member is an image, or a link to one."""
    is_hidden = PurePosixPath(member.name).name.startswith(".")
    return member.kind in (FILE, HARD_LINK, SYMBOLIC_LINK) and not is_hidden and _ending(member.name) in PICTURE_ENDINGS


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


def batches(
    table: Any, rows: int = 1 << 16, columns: list[str] | None = None, check: Callable[[Any], None] = lambda group: None
) -> Iterator[Any]:
    """Yield a table's batches by row group: pyarrow keeps the groups that it has read until the iteration ends.

    ``check`` gets the metadata of each group before it is read.
    """
    for group in range(table.num_row_groups):
        check(table.metadata.row_group(group))
        yield from table.iter_batches(rows, row_groups=[group], columns=columns)


def _check_pages(file: IO[bytes], column: str, group: Any) -> None:
    chunks = [group.column(number) for number in range(group.num_columns)]
    (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == column)
    check_pages(file, chunk)


NEEDS_PYARROW = "Parquet needs the package pyarrow: pip install 'lightbox-serve[parquet]'"


def _column(schema: Any, requested: str | None) -> str:
    """Return the column of bytes, such as ``image``, or ``image.bytes`` of a structure, as Hugging Face writes it."""
    from pyarrow import types

    def is_bytes(kind: Any) -> bool:
        return any(
            known(kind)
            for known in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
        )

    names = [field.name for field in schema if is_bytes(field.type)]
    for field in schema:
        if types.is_struct(field.type):
            names += [f"{field.name}.{part.name}" for part in field.type if is_bytes(part.type)]
    if requested in names or (requested is None and len(names) == 1):
        return requested or str(names[0])
    expected = (
        "one column of bytes, or its name with --column" if requested is None else f"a column of bytes {requested!r}"
    )
    had = ", ".join(f"{field.name} ({field.type})" for field in schema)
    raise SourceError(f"expected {expected}; the table has {had}")
