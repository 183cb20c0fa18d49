"""Typed columns of classes and objects: of all responses that Lightbox writes for them, and of no others."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet
import pytest

from lightbox.tools.offline.rows import Row
from lightbox.tools.offline.targets import FORMS, arrow_table
from lightbox.tools.offline.typed_columns import COLUMNS, typed

RUN_LENGTHS = {"size": [2, 3], "counts": [1, 5]}
CORNERS = [[1, 2], [3, 4], [5, 6], [7, 8.5]]
OBJECT = {"label": "a;=b", "class": 1, "score": 0.5, "box": [1, 2, 3, 4.5], "mask": RUN_LENGTHS, "corners": CORNERS}


def text(*items: dict[str, Any]) -> str:
    return json.dumps(items, separators=(",", ":"))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (text(OBJECT), {name: [value] for name, value in OBJECT.items()}),
        (text(OBJECT | {"mask": [[0, 0, 1, 1]]}), {"mask": None, "polygons": [[[0, 0, 1, 1]]]}),
        (text({"class": 3, "score": 0.25}, {"class": 4, "score": 0.1}), {"class": [3, 4], "score": [0.25, 0.1]}),
        ("[]", {"label": None, "class": [], "score": [], "box": []}),
        (text({"class": "of user code"}), {"class": None}),
        ("[1,2]", {"class": None}),
        (None, {"class": None}),
    ],
)
def test_the_columns_of_a_response(response: str | None, expected: dict[str, Any]) -> None:
    found = typed(response)
    assert tuple(found) == COLUMNS
    assert {name: found[name] for name in expected} == expected
    assert arrow_table([row(response)]).to_pylist()[0] == row(response)._asdict() | found


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_they_are_in_files_and_left_out_when_these_are_read(ending: str) -> None:
    file, form = io.BytesIO(), FORMS[ending]()
    form.write([row(text(OBJECT))], file)
    if ending == ".csv":
        assert r'"[""a\u003b=b""]",[1],[0.5],"[[1.0,2.0,3.0,4.5]]"' in file.getvalue().decode()
    else:
        assert pyarrow.parquet.read_table(file).column("score").to_pylist() == [[0.5]]
    file.seek(0)
    (found,) = form.read(file)
    assert json.loads(found.response or "") == [OBJECT]


def row(response: str | None) -> Row:
    return Row("=x.jpg", response, None, None, "cats", 3, None)
