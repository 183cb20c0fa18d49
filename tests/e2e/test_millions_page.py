"""docs/millions-of-pictures.md: its snippets are run unchanged. tests/slow/test_ray.py runs those for Ray."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from PIL import Image

import lightbox
from lightbox.tools.offline import Model, Row
from support import commands
from support.isolation import own_environ
from support.onnx_models import write_yolo
from support.stack import REPOSITORY, Stack

PAGE = (REPOSITORY / "docs" / "millions-of-pictures.md").read_text()
SNIPPETS = {
    heading: dict(re.findall(r"^```(bash|python|yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for heading, text in re.findall(r"^#+ (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
PHOTO = REPOSITORY / "docs" / "samples" / "digit-7.png"


@pytest.fixture
def folder(tmp_path: Path, sample_models: Path) -> Path:
    """Return a folder with a reader's photos and models."""
    (tmp_path / "photos").mkdir()
    Image.open(PHOTO).convert("RGB").save(tmp_path / "photos" / "cup.jpg")
    (tmp_path / "models").symlink_to(sample_models)
    return tmp_path


def run(program: list[str], folder: Path) -> str:
    environ = {**own_environ(), "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    return commands.output(program, env=environ, cwd=folder)


def test_each_snippet_is_run_here() -> None:
    assert {heading: list(kinds) for heading, kinds in SNIPPETS.items() if kinds} == {
        "Millions of images": ["bash", "python"],
        "Drawn photos": ["bash"],
        "mAP of a folder": ["bash"],
        "By an endpoint": ["bash"],
        "On Kubernetes": ["yaml"],
        "On EMR": ["python"],
        "On Ray": ["bash", "python"],
    }


@pytest.mark.extended
def test_drawn_photos_and_cocos_results(tmp_path: Path) -> None:
    write_yolo(tmp_path / "models" / "yolo11n" / "1" / "model.onnx")
    picture = Image.new("RGB", (640, 480), "white")
    picture.paste((255, 0, 0), (100, 100, 250, 200))
    for folder in ("photos", "val2017"):
        (tmp_path / folder).mkdir()
        picture.save(tmp_path / folder / "000000000139.jpg")
    images, categories = [{"id": 139, "file_name": "000000000139.jpg"}], [{"id": 13, "name": "stop sign"}]
    truth = {"images": images, "categories": categories, "annotations": []}
    (tmp_path / "instances_val2017.json").write_text(json.dumps(truth))
    run(["bash", "-ec", SNIPPETS["Drawn photos"]["bash"]], tmp_path)
    with Image.open(tmp_path / "drawn" / "000000000139.jpg") as drawn:
        assert drawn.size == picture.size
    (tmp_path / "answers.jsonl").unlink()
    predict, pycocotools = SNIPPETS["mAP of a folder"]["bash"].split("python -c ")
    assert "loadRes('results.json')" in pycocotools  # its package is not among the tests'
    run(["bash", "-ec", predict], tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert {(one["image_id"], one["category_id"]) for one in found} == {(139, 13)}


@pytest.mark.extended
def test_the_first_lines(folder: Path) -> None:
    snippets = SNIPPETS["Millions of images"]
    install, predict = snippets["bash"].splitlines()
    assert install.startswith("pip install ")
    assert run(["bash", "-ec", predict], folder).startswith("1 picture in ")
    assert (folder / "answers.parquet").exists()
    lines = run([sys.executable, "-c", snippets["python"]], folder).splitlines()
    assert len(lines) == 3 and len(set(lines)) == 1
    assert len(eval(lines[0])) == 3


def test_by_an_endpoint(stack: Stack, folder: Path) -> None:
    text = SNIPPETS["By an endpoint"]["bash"].replace("http://localhost:8080", stack.url)
    assert run(["bash", "-ec", text], folder).startswith("1 picture in ")


def test_the_job_is_one_of_kubernetes() -> None:
    import kubernetes_validate  # its import builds grammars for a second

    job = yaml.safe_load(SNIPPETS["On Kubernetes"]["yaml"])
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    _, _, *options = container["args"]
    assert {option.partition("=")[0] for option in options} == {"--model", "--to"}


class Picture(NamedTuple):
    """A row in Spark."""

    path: str
    content: bytearray


class Spark:
    """The part of Spark that the page uses: it passes a partition through a function."""

    def __init__(self, partition: Iterable[Picture]) -> None:
        self.partition = partition
        self.read = self.rdd = self.write = self

    def __getattr__(self, name: str) -> Callable[..., Spark]:
        return lambda *_: self

    def mapPartitions(self, function: Callable[[Iterable[Picture]], Iterable[Row]]) -> Spark:  # noqa: N802
        self.rows = list(function(iter(self.partition)))
        return self

    def createDataFrame(self, answers: Spark, columns: str) -> Spark:  # noqa: N802
        assert [column.split()[0] for column in columns.split(", ")] == list(Row._fields)
        return answers


def test_spark_answers_as_one_process(folder: Path, sample_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's code runs without Spark itself."""
    model: Model = lightbox.load(sample_models / "digits")
    monkeypatch.setattr(lightbox, "load", lambda path: model)
    photo = PHOTO.read_bytes()
    spark = Spark([Picture("s3://bucket/a.jpg", bytearray(photo)), Picture("s3://bucket/b.jpg", bytearray(b"no"))])
    exec(SNIPPETS["On EMR"]["python"], {"spark": spark})
    good, bad = spark.rows
    assert (good.path, json.loads(good.response or ""), good.code) == ("s3://bucket/a.jpg", model.predict(photo), None)
    assert (bad.path, bad.response, bad.code) == ("s3://bucket/b.jpg", None, "image_undecodable")
