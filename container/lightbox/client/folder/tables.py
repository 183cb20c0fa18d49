"""The journal as a table: CSV, or Parquet if pyarrow is installed. A table is replaced atomically."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lightbox.client.folder.journal import Record

_PATH, _STATUS, *_OTHERS = (field.name for field in fields(Record))
COLUMNS = [_PATH, _STATUS, "label", "score", *_OTHERS]
JSONL, CSV, PARQUET = ".jsonl", ".csv", ".parquet"
FORMS = (JSONL, CSV, PARQUET)


class TableError(Exception):
    """A table of this form cannot be written; the message says what to do."""


def check_form(path: Path) -> None:
    """Raise TableError unless a file of this name can be written; its suffix is the form."""
    if path.suffix not in FORMS:
        raise TableError(
            f"--out {path}: expected a name that ends in {', '.join(FORMS)}, got {path.suffix or 'none'!r}"
        )
    if path.suffix == PARQUET and importlib.util.find_spec("pyarrow") is None:
        raise TableError(
            f"--out {path}: Parquet needs the package pyarrow, which is not installed: "
            "run 'pip install pyarrow', or name a file that ends in .jsonl or .csv"
        )
    if not path.parent.is_dir():
        raise TableError(f"--out {path}: the folder {path.parent} does not exist")


def journal_path(out: Path) -> Path:
    """Return the path of the records during a run: the file itself, or one beside a table."""
    return out if out.suffix == JSONL else out.with_name(f"{out.name}{JSONL}")


def write_table(records: Sequence[Record], out: Path) -> None:
    """Write records to a file by path; ``response`` is JSON text in it. Does nothing for .jsonl.

    ``label`` and ``score`` are those of the best class, if the responses have classes by name or number.
    """
    if out.suffix == JSONL:
        return
    rows = [_row(record) for record in sorted(records, key=lambda record: record.path)]
    new = out.with_name(f"{out.name}.new")
    if out.suffix == CSV:
        with new.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    else:
        _write_parquet(rows, new)
    new.replace(out)


def _write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    texts = [(name, pyarrow.string()) for name in ("path", "label", "response", "error", "request_id", "model")]
    numbers = [(name, pyarrow.int64()) for name in ("status", "attempts", "bytes")]
    floats = [(name, pyarrow.float64()) for name in ("score", "ms")]
    schema = pyarrow.schema(sorted([*texts, *numbers, *floats], key=lambda column: COLUMNS.index(column[0])))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)


def _row(record: Record) -> dict[str, Any]:
    response = None if record.response is None else json.dumps(record.response)
    # A file's name may hold bytes that are not text; a table holds only text.
    path = record.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    label, score = _best(record.response)
    return asdict(record) | {"path": path, "label": label, "score": score, "response": response}


def _best(response: Any) -> tuple[str | None, float | None]:
    """Return label, else class, and score of the first item of ``{"predictions": [[{"class", "score"}, ...]]}``."""
    try:
        best = response["predictions"][0][0]
        return str(best.get("label", best["class"])), float(best["score"])
    except (TypeError, KeyError, IndexError, AttributeError):
        return None, None
