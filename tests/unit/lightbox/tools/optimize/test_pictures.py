"""The pictures of ``lightbox optimize``: how many it takes, and what is true of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lightbox.tools.optimize.command import BudgetType
from lightbox.tools.optimize.pictures import PicturesRefused, divided, find_pictures
from support.fakes import png
from support.parameters import each


def write(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(np.full((8, 8, 3), (number, 1, 2))))


def test_equal_pictures_count_once(tmp_path: Path) -> None:
    write(tmp_path, "a.png", "b.png")
    (tmp_path / "again.png").write_bytes((tmp_path / "a.png").read_bytes())
    (tmp_path / "notes.txt").write_text("no picture")
    assert len(find_pictures(tmp_path)) == 2
    with pytest.raises(PicturesRefused, match="is no folder"):
        find_pictures(tmp_path / "notes.txt")


@each(
    ("count", "budget", "parts"),
    [(600, 0.005, (600, 0)), (1000, 0.005, (700, 300)), (900, 0.005, (600, 300)), (80, 0.05, (60, 20))],
)
def test_those_beyond_what_a_budget_takes_calibrate(
    count: int, budget: float, parts: tuple[int, int], tmp_path: Path
) -> None:
    write(tmp_path, "a.png")
    pictures = divided(find_pictures(tmp_path) * count, budget)
    assert (len(pictures.comparing), len(pictures.calibrating)) == parts


def test_too_few_for_a_budget_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.png")
    (one,) = find_pictures(tmp_path)
    with pytest.raises(PicturesRefused) as raised:
        divided([one] * 120, 0.005)
    assert str(raised.value) == "--budget: 0.500% takes at least 600 different pictures, got 120; 120 can show 2.50%"
    divided([one] * 120, 0.025)


@each(("text", "share"), [("0.5%", 0.005), ("0.02", 0.02), (".5%", 0.005)])
def test_a_budget_is_a_share(text: str, share: float) -> None:
    assert BudgetType().convert(text, None, None) == pytest.approx(share)


@each("text", ["0", "100%", "1.5", "-1%", "much"])
def test_a_budget_that_is_none(text: str) -> None:
    with pytest.raises(Exception, match="expected a share such as"):
        BudgetType().convert(text, None, None)


def test_labels_are_the_names_of_folders_or_in_a_table(tmp_path: Path) -> None:
    write(tmp_path / "photos", "cat/1.png", "dog/2.png", "3.png")
    assert sorted(str(picture.label) for picture in find_pictures(tmp_path / "photos")) == ["None", "cat", "dog"]
    (tmp_path / "photos.csv").write_text("file,class\ncat/1.png,tiger\n3.png,7\n")
    assert sorted(str(picture.label) for picture in find_pictures(tmp_path / "photos")) == ["7", "None", "tiger"]
    (tmp_path / "photos.csv").write_text("picture,class\ncat/1.png,tiger\n")
    with pytest.raises(PicturesRefused, match=r"the labels or annotations of .* cannot be read: KeyError\('file'\)"):
        find_pictures(tmp_path / "photos")


def test_objects_are_those_of_coco(tmp_path: Path) -> None:
    write(tmp_path, "1.png", "2.png")
    annotations = [
        {"image_id": 5, "category_id": 9, "bbox": [1, 2, 3, 4], "iscrowd": 0},
        {"image_id": 5, "category_id": 3, "bbox": [0, 0, 8, 8], "iscrowd": 1},
    ]
    content = {
        "images": [{"id": 5, "file_name": "1.png"}, {"id": 6, "file_name": "2.png"}],
        "categories": [{"id": 9, "name": "cat"}, {"id": 3, "name": "dog"}],
        "annotations": annotations,
    }
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    found = {Path(picture.path).name: picture.objects for picture in find_pictures(tmp_path)}
    assert found == {"1.png": [{"class": 1, "label": "cat", "box": [1, 2, 4, 6]}], "2.png": []}
