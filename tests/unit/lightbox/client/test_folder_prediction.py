"""lightbox.client.folder: how many at a time, what is kept of a run, tables."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from lightbox.client.folder.concurrency import FIRST, MOST, ROUNDS_BETWEEN_SEARCHES, Auto
from lightbox.client.folder.journal import Journal, JournalError, Record
from lightbox.client.folder.tables import TableError, check_form, write_table

RECORD = Record("a.jpg", 200, {"predictions": [[0.5]]}, None, 1.5, 1, "id", 10, "")


def test_parquet_is_written_or_names_the_package(tmp_path: Path) -> None:
    """pyarrow is not among the locked packages; where it is installed the table is read back."""
    out = tmp_path / "out.parquet"
    if importlib.util.find_spec("pyarrow"):
        import pyarrow.parquet

        write_table([RECORD], out)
        (row,) = pyarrow.parquet.read_table(out).to_pylist()
        assert (row["path"], row["status"], row["ms"]) == ("a.jpg", 200, 1.5)
        assert json.loads(row["response"]) == RECORD.response
    else:
        with pytest.raises(TableError, match="Parquet needs the package pyarrow, which is not installed"):
            check_form(out)


@pytest.mark.parametrize("text", ["my notes", "my notes\n", '{"path": "a.jpg"}\n', "[1]\n"])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(text)
    with pytest.raises(JournalError, match="name another"):
        Journal(path, {})
    assert path.read_text() == text


def test_a_file_belongs_to_one_model_and_to_one_run(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Journal(path, {}) as journal:
        journal.append(RECORD)
        with pytest.raises(JournalError, match="another run is writing to it"):
            Journal(path, {})
    with pytest.raises(JournalError, match="holds answers of the default model, this run asks the model 'cats'"):
        Journal(path, {}, "cats")
    with Journal(path, {}) as journal:
        assert journal.done == {"a.jpg"}


def settled(best: int, most_images: int = 5000) -> Auto:
    """Run the search against an endpoint that does as many images at once as ``best``, in a second each."""
    auto, now = Auto(), 0.0
    for _ in range(most_images):
        now += 1 / min(auto.limit, best)
        auto.answered(now, 0)
    return auto


@pytest.mark.parametrize("best", [1, 2, 4, 8, 16, 32, 64, 1000])
def test_the_search_ends_where_more_is_no_faster(best: int) -> None:
    # It begins with eight, and one step beyond the best is on trial now and then.
    assert settled(best).limit in {min(MOST, max(FIRST, best)), min(MOST, max(FIRST, best) * 2)}
    assert settled(best, 800).limit == min(MOST, max(FIRST, best))


def test_a_refusal_halves_the_number() -> None:
    auto = settled(16, 800)
    auto.answered(10_000.0, 1)
    assert auto.limit == 8
    for _ in range(10):
        auto.answered(10_000.0, 1)
    assert auto.limit == 1


def test_it_looks_again_for_a_larger_number() -> None:
    auto = settled(8, 800)
    now, seen = 10_000.0, set()
    for _ in range(24 * 3 * ROUNDS_BETWEEN_SEARCHES):
        now += 1 / min(auto.limit, 32)
        auto.answered(now, 0)
        seen.add(auto.limit)
    assert 32 in seen
