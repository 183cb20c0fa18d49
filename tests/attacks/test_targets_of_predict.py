"""Targets of lightbox predict: what others have planted in a shared folder, and formulas in CSV."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.offline.rows import Row
from lightbox.tools.offline.targets import FORMS, Target, TargetError
from support.parameters import each

OTHER = 4321
"""The number of another user."""


class By:
    """A model."""

    name, version, engine, reads = "cats", 3, None, False
    responses: Any = None


def row(path: str = "a.jpg", response: str | None = "1") -> Row:
    return Row(path, response, None, None, "cats", 3, None)


def write(to: Path, *rows: Row) -> None:
    with Target(str(to), By(), part_rows=1) as target:
        for one in rows or (row(),):
            target.add(one)
        target.finish()


def found(file: Path) -> list[Row]:
    with file.open("rb") as opened:
        return list(FORMS[file.suffix]().read(opened))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder that all users may write, beside ``own``, which has a file of this user."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "part-00000.csv").write_text("precious")
    return tmp_path / "shared"


@pytest.mark.parametrize("name", ["b.csv", "b.csv/"])
def test_what_others_have_planted_is_neither_written_nor_believed(shared: Path, name: str) -> None:
    own, to = shared.parent / "own", shared / "b.csv"
    parts = to if name.endswith("/") else shared / "b.csv.parts"

    def refused() -> None:
        before = sorted(own.iterdir())
        with pytest.raises(TargetError, match=r"is a link, or no folder|has made the file or folder|symbolic link"):
            write(f"{shared}/{name}")  # type: ignore[arg-type]
        assert sorted(own.iterdir()) == before
        assert (own / "part-00000.csv").read_text() == "precious"

    parts.symlink_to(own)
    refused()
    parts.unlink()
    parts.mkdir(mode=0o777)
    os.chown(parts, OTHER, OTHER)
    for planted in (".unfinished", "part-00000.csv", ".part-00000.csv.new"):
        (parts / planted).symlink_to(own / "part-00000.csv")
    refused()
    shutil.rmtree(parts)
    if parts != to:
        to.symlink_to(own / "part-00000.csv")
        refused()
        to.unlink()
        write(shared.parent / "rows.csv", row("planted.jpg"))
        shutil.copy(shared.parent / "rows.csv", to)
        os.chown(to, OTHER, OTHER)
        refused()
        to.unlink()
    write(f"{shared}/{name}", row(), row("b.jpg"))  # type: ignore[arg-type]
    with Target(f"{shared}/{name}", By()) as target:
        assert target.done == {"a.jpg", "b.jpg"}


def test_a_file_that_is_planted_in_ones_own_folder_is_replaced(shared: Path) -> None:
    parts = shared / "b.csv.parts"
    parts.mkdir()
    parts.chmod(0o777)
    (parts / ".unfinished").symlink_to(shared.parent / "own" / "part-00000.csv")
    write(shared / "b.csv")
    assert [one.path for one in found(shared / "b.csv")] == ["a.jpg"]
    assert (shared.parent / "own" / "part-00000.csv").read_text() == "precious"
    assert not parts.exists()


def test_a_volume_that_maps_owners_resumes(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SMB and FUSE do: whatever is made belongs to one number, and seems to be for all."""
    fstat = os.fstat

    def mapped(descriptor: int) -> os.stat_result:
        about = fstat(descriptor)
        return os.stat_result((about.st_mode | 0o777, *about[1:4], OTHER, *about[5:10]))

    monkeypatch.setattr(os, "fstat", mapped)
    for to in (shared / "a.jsonl", shared / "b.csv"):
        with Target(str(to), By(), part_rows=1) as target:
            target.add(row())
        write(to, row("b.jpg"))
        assert [one.path for one in found(to)] == ["a.jpg", "b.jpg"]


FORMULAS = (
    *("=1+1.png", "@SUM(1).png", "+cmd.png", "-2+3", "\uff1d1"),
    *("\t=1", "\r=1", " =1", "'=1", "''=1", '"=1', "\0=1", "\ufeff=1"),
)


@each(
    ("path", "runs"),
    [
        *((formula, True) for formula in FORMULAS),
        *((f"a.png;{formula}", True) for formula in FORMULAS),
        *((f"a\n{formula}\t{formula}", True) for formula in FORMULAS),
        *((text, False) for text in ("a=1.png", "a-b;c.png", "' a", "a;\t", "1-2", "'", "")),
        ("\t" * 100_000 + "=", True),
        ("\t" * 100_000 + "a", False),
    ],
)
def test_no_cell_of_csv_is_a_formula_and_each_comes_back(path: str, runs: bool) -> None:
    """Also where a spreadsheet takes semicolons or tabs for the ends of cells."""
    text = path or None
    response = '"a;=1+1;\\\\;"'
    given = Row(path, response, text, text, text, 3, text)
    file = BytesIO()
    FORMS[".csv"]().write([given], file)
    file.seek(0)
    (read,) = FORMS[".csv"]().read(file)
    assert read._replace(response=None, path=path) == given._replace(response=None)
    assert json.loads(read.response or "") == json.loads(response)
    cells = list(csv.reader(file.getvalue().decode().splitlines(keepends=True)))[1]
    assert (cells[0] != path) is runs
    pieces = [piece for cell in cells for piece in re.split("[;\t\r\n]", cell)]
    assert [piece for piece in pieces if piece.strip(' "\0\ufeff').startswith(tuple("=+-@\uff1d"))] == []
