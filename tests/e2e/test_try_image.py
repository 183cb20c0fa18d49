"""``serve.sh try`` with the digits model, trained on pixels 0..1."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from lightbox.model.options import ModelOptions
from lightbox.model.spec import ImageInput
from lightbox.tools import try_image
from lightbox.tools.try_image import Way, best
from support import commands
from support.finders import write_finder
from support.isolation import own_environ
from support.log_lines import without_times
from support.model_files import write_means
from support.stack import SERVE

pytestmark = pytest.mark.extended

PICTURE = SERVE.parent / "docs" / "samples" / "digit-7.png"
GOLDEN = SERVE.parent / "tests" / "contract" / "golden" / "models"


def run(tmp: Path, models: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    settings = {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded", "TMPDIR": str(tmp)}
    return commands.run([SERVE, "try", *arguments], env=own_environ() | settings | environ)


def tables(output: str) -> dict[str, dict[str, list[str]]]:
    """Return each fit's table by column, one column per scaling."""
    found = {}
    for part in output.split("\nfit ")[1:]:
        fit, *lines = part.splitlines()
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
        found[fit] = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    return found


def test_the_answers_under_each_fit_and_scaling_stand_side_by_side(
    sample_models: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    models, tmp = tmp_path / "models", tmp_path_factory.mktemp("t")
    (models / "digits" / "code").mkdir(parents=True)
    shutil.copytree(sample_models / "digits" / "1", models / "digits" / "1")
    names = '["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]'
    (models / "digits" / "code" / "lightbox.json").write_text(f'{{"scaling": "tf", "labels": {names}}}')
    # This setting would hide the copy's scaling.
    done = run(tmp, models, "digits", "--image", str(PICTURE), LIGHTBOX_SCALING="unit")
    assert done.returncode == 0, done.stderr
    found = tables(done.stdout)
    assert list(found) == ["stretch", "crop", "letterbox"]
    answers = found["stretch"]
    assert list(answers) == ["none", "unit", "tf", "torch", "caffe", "none bgr", "unit bgr"]
    number, label, score = answers["unit"][0].split()
    assert (number, label) == ("7", "seven")
    assert 0.9 < float(score) <= 1
    assert {len(column) for column in answers.values()} == {5}
    assert len(set(map(tuple, answers.values()))) > 3, "scalings give other scores"
    assert found["letterbox"] == found["crop"] == answers, "the picture has the shape of the input"
    assert done.stdout.splitlines()[-1].startswith("scaling of digits: unit, pixels 0..1 (LIGHTBOX_SCALING); ")
    assert list(tmp.iterdir()) == []


def test_a_file_with_its_channels_first_is_tried(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A model file, served by itself: its scores are the means of the picture's channels."""
    write_means(tmp_path / "means.xml", 40, 60)
    done = run(tmp_path_factory.mktemp("t"), tmp_path / "means.xml", "means", "--image", str(PICTURE))
    assert done.returncode == 0, done.stderr
    means = {
        fit: {scaling: float(column[0].split()[1]) for scaling, column in answers.items()}
        for fit, answers in tables(done.stdout).items()
    }
    none, unit = means["stretch"]["none"], means["stretch"]["unit"]
    assert none == pytest.approx(255 * unit, rel=1e-3)
    assert none > 1
    # A third of the input is padding of 114, the rest is the picture.
    assert means["letterbox"]["none"] == pytest.approx((2 * none + 114) / 3, rel=0.01)
    assert "what means.xml does with them is not known" in done.stdout


def test_every_way_keeps_the_models_order_of_channels() -> None:
    wanted = ImageInput("x", False, True, "float32", 40, 60)
    options = ModelOptions(channels="bgr", mean=(1, 2, 3), std=(4, 5, 6), scaling="unit", fit="crop", crop_pct=0.9)
    ways = try_image.ways_of(options, wanted)
    assert len(ways) == 21
    assert {way.scaling for way, own in ways.items() if own.channels != "bgr"} == {"none rgb", "unit rgb"}
    assert {way.scaling for way, own in ways.items() if own.mean == (1, 2, 3)} == {"unit", "unit rgb"}
    assert {way.fit for way, own in ways.items() if own.crop_pct == 0.9} == {"crop"}


def test_pixels_that_are_integers_have_fits(tmp_path: Path) -> None:
    done = run(tmp_path, GOLDEN, "image_mean", "--image", str(PICTURE))
    assert done.returncode == 0, done.stderr
    assert {fit: list(answers) for fit, answers in tables(done.stdout).items()} == {
        "stretch": ["none", "none bgr"],
        "crop": ["none", "none bgr"],
        "letterbox": ["none", "none bgr"],
    }
    assert "scaling" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch", "--image", str(PICTURE)], "MODEL: there is no model named 'nosuch' in"),
        (
            ["half_plus_two", "--image", str(PICTURE)],
            "MODEL: expected one that takes an image as pixels; half_plus_two has x (float32",
        ),
    ],
)
def test_what_cannot_be_compared_is_reported(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, GOLDEN, *arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_image(sample_models: Path, tmp_path: Path) -> None:
    done = run(tmp_path, sample_models, "digits", "--image", str(SERVE))
    assert done.returncode == 1
    assert without_times(done.stderr).startswith(f"[lightbox] --image: {SERVE}")
    assert "image" in done.stderr


def test_a_folder_with_labels_counts_what_each_scaling_has_right(sample_models: Path, tmp_path: Path) -> None:
    for name in ("7", "3"):  # the same picture: one label is wrong
        (tmp_path / "labelled" / name).mkdir(parents=True)
        shutil.copy(PICTURE, tmp_path / "labelled" / name)
    (tmp := tmp_path / "tmp").mkdir()
    done = run(tmp, sample_models, "digits", "--image", str(tmp_path / "labelled"))
    assert done.returncode == 0, done.stderr
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line[:1] == "|"
    ]
    assert header == ["fit", "scaling", "right", "accuracy"]
    assert len(rows) == 21
    assert [cells[2:] for cells in rows if cells[:2] == ["stretch", "unit"]] == [["1 of 2", "50.0%"]]
    counts = [int(cells[2].split()[0]) for cells in rows]
    assert counts == sorted(counts, reverse=True)
    assert list(tmp.iterdir()) == []


def test_what_does_not_distinguish_the_scalings_is_reported() -> None:
    sure, unsure, wrong = [0.0, 1.0], [0.4, 0.6], [0.9, 0.1]
    none, unit, tf = (Way("stretch", scaling) for scaling in ("none", "unit", "tf"))
    *_, said = try_image.side_by_side({none: [sure], unit: [unsure]}, [])
    assert "Each way gives the same class: take an image that is harder to classify, or a folder" in said
    assert "same class" not in "".join(try_image.side_by_side({none: [sure], unit: [wrong]}, []))
    crop = Way("crop", "none")
    answers = {none: [sure, sure], unit: [sure, wrong], tf: [wrong, sure], crop: [unsure, wrong]}
    *rows, said = try_image.accuracy_table(answers, [1, 0])
    assert [row.split()[1:4:2] for row in rows[2:]] == [
        ["stretch", "unit"],
        ["crop", "none"],
        ["stretch", "none"],
        ["stretch", "tf"],
    ]
    assert "stretch unit and crop none are alike: take" in said
    *_, said = try_image.accuracy_table({way: [sure] for way in answers}, [1])
    assert said.startswith("\n4 ways are alike: ")


@pytest.mark.parametrize(("files", "words"), [([], "holds no images in folders"), (["cats/a.png"], "got 'cats'")])
def test_a_folder_without_labels(sample_models: Path, tmp_path: Path, files: list[str], words: str) -> None:
    (tmp_path / "labelled").mkdir()
    for name in files:
        (file := tmp_path / "labelled" / name).parent.mkdir()
        shutil.copy(PICTURE, file)
    done = run(tmp_path, sample_models, "digits", "--image", str(tmp_path / "labelled"))
    assert done.returncode == 1
    assert words in done.stderr


def test_the_best_of_other_outputs() -> None:
    boxes = {"detection_classes": [3.0, 1.0], "detection_scores": [0.2, 0.9], "detection_boxes": [[0.0] * 4] * 2}
    assert best(boxes, ["none", "cat", "", "dog"]) == ["1 cat 0.9", "3 dog 0.2"]
    assert best({"mask": [[1, 2]], "logits": [-1, 5, 2]}, []) == ["1 5", "2 2", "0 -1"]
    assert best([0.5], []) == ["[0.5]"]
    assert best([], []) == ["no object"]


def test_objects_are_listed_with_their_boxes_and_a_mistyped_path_is_named(tmp_path: Path) -> None:
    write_finder(tmp_path / "finder.xml", "ultralytics")
    Image.new("RGB", (640, 480), (250, 5, 5)).save(tmp_path / "red.png")
    words = ["--image", str(tmp_path / "red.png")]
    options = '{"detections": "ultralytics", "labels": ["red", "blue"]}'
    done = run(tmp_path, tmp_path / "finder.xml", *words, LIGHTBOX_OPTIONS=options)
    assert done.returncode == 0, done.stderr
    found = tables(done.stdout)
    assert found["stretch"]["unit"][0] == "0 red 0.900 [0,0,640,480]"
    assert found["stretch"]["unit bgr"][0] == "1 blue 0.600 [0,0,640,480]"
    done = run(tmp_path, tmp_path / "nowhere", "my_modles", *words)
    assert "MODEL: there is no file or folder 'my_modles', and no model of this name: " in done.stderr
