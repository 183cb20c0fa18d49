"""COCO's results of rows: their ids, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.offline.coco_results import CocoResults
from lightbox.tools.offline.rows import Row
from lightbox.tools.offline.targets import TargetError

CAT = {"label": "cat", "class": 15, "score": 0.5, "box": [1.0, 2.0, 4.0, 6.0]}
DOG = {"label": "dog", "class": 16, "score": 0.25, "box": [0.0, 0.0, 1.0, 1.0]}


def row(path: str, response: object, error: str | None = None) -> Row:
    return Row(path, None if response is None else json.dumps(response), None, error, "m", 1, None)


ROWS = [
    row("val/000000000139.jpg", [CAT, DOG]),
    row("street.jpg", [CAT]),
    row("empty.jpg", []),
    row("broken.jpg", None, "no image"),
    row("numbers.jpg", [0.5, 0.25]),
    row("other.jpg", [{**CAT, "box": "none"}]),
]


def written(folder: Path, annotations: object = None) -> tuple[list[dict[str, Any]], list[str]]:
    truth = folder / "truth.json"
    truth.write_text(json.dumps(annotations))
    results = CocoResults(f"{folder}/results.json", str(truth) if annotations else None)
    results.write(ROWS)
    return json.loads((folder / "results.json").read_text()), results.problems


def test_without_annotations_ids_are_those_of_files_and_classes(tmp_path: Path) -> None:
    found, problems = written(tmp_path)
    assert [(one["image_id"], one["category_id"]) for one in found] == [(139, 15), (139, 16), ("street.jpg", 15)]
    assert found[0]["bbox"] == [1.0, 2.0, 3.0, 4.0]
    assert problems == ["--coco leaves out pictures whose answers are no objects: 2"]


def test_annotations_give_the_ids_of_files_and_of_labels(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "000000000139.jpg", "width": 9}, {"id": "e", "file_name": "empty.jpg"}]
    found, problems = written(
        tmp_path, {"images": images, "categories": [{"id": 17, "name": "cat"}], "annotations": []}
    )
    assert [(one["image_id"], one["category_id"], one["score"]) for one in found] == [(7, 17, 0.5)]
    assert problems == [
        "--coco leaves out pictures that --annotations does not have: 1",
        "--coco leaves out objects whose labels are no categories of --annotations: 1, as dog",
        "--coco leaves out pictures whose answers are no objects: 2",
    ]


def test_names_that_are_in_several_folders_need_their_folder(tmp_path: Path) -> None:
    images = [{"id": 1, "file_name": "val/000000000139.jpg"}, {"id": 2, "file_name": "train/000000000139.jpg"}]
    found, _ = written(tmp_path, {"images": images, "categories": [{"id": 17, "name": "cat"}]})
    assert [one["image_id"] for one in found] == [1]


def test_no_object_is_an_empty_list_and_files_that_cannot_be_written(tmp_path: Path) -> None:
    CocoResults(f"{tmp_path}/results.json", None).write([row("a.jpg", [])])
    assert json.loads((tmp_path / "results.json").read_text()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(TargetError, match=r"--coco .*cannot be written"):
        CocoResults(f"{tmp_path}/folder", None).write(ROWS)
