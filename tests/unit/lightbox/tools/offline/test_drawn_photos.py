"""``lightbox predict --draw`` and ``--coco``: what is written beside the rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightbox.cli import main
from lightbox.tools.offline.drawn_photos import file_of
from support.fakes import png
from support.onnx_models import write_classifier, write_yolo
from support.parameters import each

BACK = np.full((480, 640, 3), 200, np.uint8)


def photo() -> bytes:
    """Return a picture with the red and the blue rectangle that ``write_yolo`` finds."""
    pixels = BACK.copy()
    pixels[100:200, 100:250] = (255, 0, 0)
    pixels[300:400, 350:600] = (0, 0, 255)
    return png(pixels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    write_yolo(folder / "yolo" / "1" / "model.onnx")
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "deep" / "000000000139.png").write_bytes(photo())
    (folder / "in" / "broken.jpg").write_bytes(b"none")
    return folder


def predict(folder: Path, *more: str, model: str = "yolo") -> int:
    command = ["predict", f"{folder}/in", "--model", f"{folder}/{model}", "--engine", "onnxruntime"]
    return main([*command, "--to", f"{folder}/{len(list(folder.iterdir()))}.jsonl", *more])


def test_photos_are_drawn_in_folders_as_in_the_source(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(folder, "--draw", f"{folder}/drawn") == 1
    assert [file.name for file in (folder / "drawn").rglob("*.*")] == ["000000000139.png.jpg"]
    found = np.asarray(Image.open(folder / "drawn" / "deep" / "000000000139.png.jpg"), np.int16)
    assert found.shape == BACK.shape
    apart = np.abs(found - np.asarray(Image.open(folder / "in" / "deep" / "000000000139.png"), np.int16)).max(axis=2)
    assert (apart[100:200, 98:103] > 60).any(axis=1).all()
    assert apart[230:270].max() < 60


def test_answers_without_names_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_classifier(folder / "plain" / "1" / "model.onnx")
    predict(folder, "--draw", f"{folder}/none", "--coco", f"{folder}/none.json", model="plain")
    said = capsys.readouterr().err
    assert "--draw leaves out pictures whose answers are no classes or objects: 1" in said
    assert "--coco leaves out pictures whose answers are no objects: 1" in said
    assert not (folder / "none").exists()


def test_results_of_a_run_have_its_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "truth.json").write_text(
        json.dumps(
            {"images": [{"id": 5, "file_name": "000000000139.png"}], "categories": [{"id": 13, "name": "stop sign"}]}
        )
    )
    predict(folder, "--coco", f"{folder}/results.json", "--annotations", f"{folder}/truth.json")
    assert "no categories of --annotations: 1, as car" in capsys.readouterr().err
    (found,) = json.loads((folder / "results.json").read_text())
    assert (found["image_id"], found["category_id"]) == (5, 13)
    assert found["bbox"] == pytest.approx([100, 100, 150, 100], abs=1)


@each(
    ("more", "sentence"),
    [
        (["--annotations", "a.json"], "--annotations: works only with --coco"),
        (["--coco", "a.json", "--annotations", "/nowhere.json"], "/nowhere.json: cannot be read"),
        (["--coco", "a.json", "--annotations", __file__], "expected COCO's images"),
        (["--coco", "/nowhere/a.json"], "the folder /nowhere does not exist"),
        (["--draw", "a", "--ray", "auto"], "expected --draw or --ray, got both"),
    ],
)
def test_what_cannot_be_written(more: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", ".", "--model", "m", "--to", "a.jsonl", *more]) == 2
    assert sentence in capsys.readouterr().err


@each(
    ("path", "expected"),
    [
        ("a/b.jpg", "a/b.jpg"),
        ("B.JPEG", "B.JPEG"),
        ("b.png", "b.png.jpg"),
        ("../../etc/a.jpg", "_/_/etc/a.jpg"),
        ("/etc/a.jpg", "etc/a.jpg"),
        ("s3://bucket/a.webp", "bucket/a.webp.jpg"),
        ("train.tar/../../x.jpg", "train.tar/_/_/x.jpg"),
    ],
)
def test_a_photo_stays_below_its_folder(path: str, expected: str) -> None:
    assert file_of(path) == expected
