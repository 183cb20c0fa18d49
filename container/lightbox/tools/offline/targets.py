"""Targets of rows: one file or a folder of parts, here or in S3, with each row once, however a run ends.

Rows are written in parts, each atomically. A resumed run reads the parts to find the images with a row. For a target
of one file, the parts are joined at the end and deleted; if both exist, the file has all rows.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import orjson
from typing_extensions import override

from lightbox.codecs.json_text import from_json
from lightbox.tools.offline.rows import Predictor, Row, json_text, reason
from lightbox.tools.offline.sources import NEEDS_PYARROW, batches
from lightbox.tools.offline.storage import S3, S3_SCHEME, OwnFolder, Written, split
from lightbox.tools.offline.typed_columns import COLUMNS, arrow_types, typed

PART_ROWS, PART_BYTES, PART_SECONDS = 10_000, 64 << 20, 30.0
"""Limits of a part in rows, bytes and seconds. A kill loses at most the rows of one part."""


class TargetError(Exception):
    """Rows cannot be written; the message names the place and the reason."""


class Form(ABC):
    """A file format of rows."""

    has_head = False
    """Whether a file begins with a header line."""

    @abstractmethod
    def write(self, rows: Sequence[Row], file: IO[bytes]) -> None:
        """Write rows."""

    @abstractmethod
    def read(self, file: IO[bytes]) -> Iterator[Row]:
        """Yield the rows. Raises ValueError, KeyError or TypeError for other content."""

    def join(self, files: Iterable[IO[bytes]], into: IO[bytes]) -> None:
        """Write the rows of several files into one."""
        for number, file in enumerate(files):
            if number and self.has_head:
                file.readline()
            shutil.copyfileobj(file, into)


class JsonLines(Form):
    """An object for each line; the response is JSON."""

    @override
    def write(self, rows: Sequence[Row], file: IO[bytes]) -> None:
        for row in rows:
            response = None if row.response is None else orjson.Fragment(row.response)
            file.write(orjson.dumps(row._replace(response=response)._asdict()) + b"\n")  # type: ignore[arg-type]

    @override
    def read(self, file: IO[bytes]) -> Iterator[Row]:
        for line in file:
            row = Row(**from_json(line))
            yield row if row.response is None else row._replace(response=json_text(row.response))


_HEAD = (*Row._fields, *COLUMNS)
_BEFORE_FORMULAS = re.compile("""(?<![;'"\\s\\0\ufeff])([;'"\\s\\0\ufeff]*+)(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])""")
_CELLS_END = re.compile("[;\t\r\n]")
"""Characters that a spreadsheet may take for the end of a cell, besides a comma, which is in quotes."""


class Csv(Form):
    """A header, then the rows with typed columns; null is an empty field.

    What a spreadsheet would run has a quote before it, which ``read`` takes away. The response, and each typed column,
    is JSON with \\u003b for semicolons.
    """

    has_head = True

    @override
    def write(self, rows: Sequence[Row], file: IO[bytes]) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        csv.writer(text).writerows([_HEAD, *map(_cells, rows)])
        text.detach()

    @override
    def read(self, file: IO[bytes]) -> Iterator[Row]:
        csv.field_size_limit(sys.maxsize)
        text = io.TextIOWrapper(file, "utf-8", newline="")
        try:
            reader = csv.reader(text)
            if tuple(next(reader, ())) != _HEAD:
                raise ValueError("other columns")
            for cells in reader:
                row = Row(*(_armed(cell) or None for cell in cells[: len(Row._fields)]))  # type: ignore[arg-type]
                yield row._replace(version=row.version and int(row.version))
        finally:
            text.detach()


def _cells(row: Row) -> list[Any]:
    cells = (_quoted(cell, lambda before: f"{before}'") if isinstance(cell, str) else cell for cell in row)
    typed_cells = (None if column is None else json_text(column) for column in typed(row.response).values())
    response, *others = (text and text.replace(";", "\\u003b") for text in (row.response, *typed_cells))
    return [*Row(*cells)._replace(response=response), *others]  # type: ignore[arg-type]


def _armed(cell: str) -> str:
    return _quoted(cell, lambda before: before.removesuffix("'"))


def _quoted(cell: str, change: Callable[[str], str]) -> str:
    """Return a cell's text with what is before each formula changed."""

    def changed(match: re.Match[str]) -> str:
        begins_cell = match.start() == 0 or _CELLS_END.search(match[1])
        return change(match[1]) if begins_cell else match[1]

    return _BEFORE_FORMULAS.sub(changed, cell)


def arrow_table(rows: Iterable[Row]) -> Any:
    """Return a pyarrow.Table with a column of text for each field, of 64-bit integers for the version, and the typed
    ones of classes and objects."""
    import pyarrow

    kinds = {name: pyarrow.int64() if name == "version" else pyarrow.string() for name in Row._fields}
    schema = pyarrow.schema({**kinds, **arrow_types()})
    return pyarrow.Table.from_pylist([row._asdict() | typed(row.response) for row in rows], schema=schema)


class Parquet(Form):
    """The columns of ``arrow_table``."""

    def __init__(self) -> None:
        try:
            import pyarrow.parquet
        except ModuleNotFoundError as error:
            raise TargetError(NEEDS_PYARROW) from error
        self._parquet = pyarrow.parquet

    @override
    def write(self, rows: Sequence[Row], file: IO[bytes]) -> None:
        self._parquet.write_table(arrow_table(rows), file)

    @override
    def read(self, file: IO[bytes]) -> Iterator[Row]:
        for batch in batches(self._opened(file)):
            yield from (Row(**row) for row in batch.select(Row._fields).to_pylist())

    @override
    def join(self, files: Iterable[IO[bytes]], into: IO[bytes]) -> None:
        with self._parquet.ParquetWriter(into, arrow_table(()).schema) as writer:
            for file in files:
                for batch in batches(self._opened(file)):
                    writer.write_batch(batch)

    def _opened(self, file: IO[bytes]) -> Any:
        try:
            return self._parquet.ParquetFile(file, pre_buffer=False)
        except Exception as error:
            raise ValueError(str(error)) from error


FORMS: dict[str, type[Form]] = {".jsonl": JsonLines, ".csv": Csv, ".parquet": Parquet}


class Target:
    """A file, or a folder of parts where ``to`` ends with a slash; a context manager, for one run at a time.

    ``done`` are the paths that have a row. With ``again`` the rows of images that failed are taken out first.
    """

    def __init__(self, to: str, by: Predictor, part_rows: int = PART_ROWS, again: bool = False) -> None:
        self.to, self._by, self._part_rows = to, by, part_rows
        parent, self._name = split(to)
        ending = Path(self._name).suffix
        if ending not in FORMS:
            raise TargetError(f"{to}: expected a name that ends in {', '.join(FORMS)}, got {ending or 'none'!r}")
        self._form, self._ending = FORMS[ending](), ending
        is_in_s3 = to.startswith(S3_SCHEME)
        folder = None if is_in_s3 else Path(parent, self._name)
        self._is_folder = to.endswith("/") or (folder is not None and folder.is_dir())
        if self._is_folder and folder is not None and folder.is_file():
            raise TargetError(f"{to}: expected a folder, because of the slash at its end; it is a file")
        if folder is not None and not folder.parent.is_dir():
            raise TargetError(f"{to}: the folder {folder.parent} does not exist")
        self._place = to.rstrip("/") if folder is None else str(folder.parent.resolve() / self._name)
        self._below = self._name if self._is_folder else f"{self._name}.parts"
        self._files: Written = S3.of(parent) if is_in_s3 else OwnFolder(Path(parent), self._below)
        self._again = again
        self._rows: list[Row] = []
        self._bytes, self._since = 0, 0.0
        self._parts: list[str] = []
        self._is_joined = False
        self.done: set[str] = set()

    def __enter__(self) -> Target:
        with ExitStack() as locked:
            try:
                locked.enter_context(self._files.locked())
            except BlockingIOError as error:
                raise TargetError(f"{self.to}: another run is writing to it") from error
            except OSError as error:
                raise self._unwritten(error) from error
            try:
                self._begin()
            except OSError as error:
                raise TargetError(f"{self.to}: cannot be read: {reason(error)}") from error
            self._locked = locked.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._locked.close()

    def is_part(self, place: str) -> bool:
        """Return whether a file, by its address or resolved path, belongs to this target."""
        return place == self._place or place.startswith((f"{self._place}/", f"{self._place}.parts/"))

    def add(self, row: Row) -> None:
        """Take a row. It is written with the next part, at the latest by ``flush``. Raises TargetError."""
        if not self._rows:
            self._since = time.monotonic()
        self._rows.append(row)
        self._bytes += len(row.response or "")
        is_old = time.monotonic() - self._since >= PART_SECONDS
        if len(self._rows) >= self._part_rows or self._bytes >= PART_BYTES or is_old:
            self.flush()

    def written(self) -> Iterator[Row]:
        """Yield all rows, after ``flush`` and before ``finish``."""
        for file in self._opened_parts():
            yield from self._form.read(file)

    def flush(self) -> None:
        """Write the rows in memory as a part. Raises TargetError."""
        if not self._rows:
            return
        try:
            if self._is_joined:
                self._files.move(self._name, self._part(0))
                self._parts, self._is_joined = [self._part(0)], False
            part = self._part(1 + max(map(_number, self._parts), default=-1))
            self._files.put(part, lambda file: self._form.write(self._rows, file), new=True)
        except OSError as error:
            raise self._unwritten(error) from error
        self._parts.append(part)
        self._rows, self._bytes = [], 0

    def finish(self) -> None:
        """Write the rest; for a target of one file, join the parts. Raises TargetError."""
        self.flush()
        if self._is_folder or self._is_joined or not self._parts:
            return
        try:
            self._files.put(self._name, lambda file: self._form.join(self._opened_parts(), file))
            self._delete_parts()
        except OSError as error:
            raise self._unwritten(error) from error

    def _begin(self) -> None:
        self._parts = sorted(name for name in self._files.names(self._below) if self._is_part(name))
        if not self._is_folder and self._files.exists(self._name):
            self._look_at(self._name)
            self._delete_parts()  # after a look: the file may be of something else
            self._parts, self._is_joined = [self._name], True
            return
        for name in self._parts:
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        """Add the images of a file to ``done``, and remove rows that are to be predicted again."""
        kept, failed = list[Row](), 0
        try:
            with self._files.open(name) as file:
                for row in self._form.read(file):
                    self._check(row)
                    if self._again and row.error is not None:
                        failed += 1
                        continue
                    self.done.add(row.path)
                    if self._again:
                        kept.append(row)
        except (ValueError, TypeError, KeyError) as error:
            raise TargetError(f"{name}: holds no rows of this command: name another target with --to") from error
        if failed:
            self._files.put(name, lambda into: self._form.write(kept, into))

    def _check(self, row: Row) -> None:
        wanted = (self._by.name or row.model, self._by.version or row.version)
        if (row.model, row.version) != wanted:
            raise TargetError(
                f"{self.to}: holds answers of {_named(row.model, row.version)}, this run's are of "
                f"{_named(self._by.name, self._by.version)}: name another target with --to"
            )

    def _part(self, number: int) -> str:
        return f"{self._below}/part-{number:05}{self._ending}"

    def _is_part(self, name: str) -> bool:
        return bool(re.fullmatch(rf"part-\d+{re.escape(self._ending)}", name.removeprefix(f"{self._below}/")))

    def _opened_parts(self) -> Iterator[IO[bytes]]:
        for name in self._parts:
            with self._files.open(name) as file:
                yield file

    def _delete_parts(self) -> None:
        for name in self._parts:
            self._files.delete(name)
        self._parts = []

    def _unwritten(self, error: OSError) -> TargetError:
        if isinstance(error, FileExistsError):
            return TargetError(f"{self.to}: another run is writing to it: {error}")
        return TargetError(f"{self.to}: cannot be written: {reason(error)}. The same command goes on from here")


def _number(part: str) -> int:
    return int(part.rpartition("part-")[2].partition(".")[0])


def _named(model: str | None, version: int | None) -> str:
    return f"the model {model!r}{'' if version is None else f', version {version}'}"
