"""``serve.sh try`` with the digits model, which was trained on pixels 0..1."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.log_lines import without_times
from support.model_files import write_means
from support.patience import PATIENCE
from support.stack import SERVE, clean_environ
from tune import try_image
from tune.try_image import best

pytestmark = pytest.mark.extended

PICTURE = SERVE.parent / "docs" / "samples" / "digit-7.png"
GOLDEN = SERVE.parent / "tests" / "contract" / "golden" / "models"


def run(tmp: Path, models: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    settings = {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded", "TMPDIR": str(tmp)}
    return subprocess.run(
        [SERVE, "try", *arguments],
        env=clean_environ() | settings | environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_answers_under_each_scaling_stand_side_by_side(
    sample_models: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    models, tmp = tmp_path / "models", tmp_path_factory.mktemp("t")
    (models / "digits" / "code").mkdir(parents=True)
    (models / "digits" / "1").symlink_to(sample_models / "digits" / "1")
    names = '["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]'
    (models / "digits" / "code" / "lightbox.json").write_text(f'{{"scaling": "tf", "labels": {names}}}')
    # A setting that would hide the scalings of the copies.
    done = run(tmp, models, "digits", "--image", str(PICTURE), LIGHTBOX_SCALING="unit")
    assert done.returncode == 0, done.stderr
    header, _, *rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    columns = [cell.strip() for cell in header.strip("|").split("|")]
    assert columns[:3] == ["none", "unit", "tf"]
    assert len(rows) == 5
    answers = dict(zip(columns, zip(*(row.strip("| ").split("|") for row in rows), strict=True), strict=True))
    number, label, score = answers["unit"][0].split()
    assert (number, label) == ("7", "seven")
    assert 0.9 < float(score) <= 1
    assert len(set(answers.values())) == len(columns), "each scaling gives other scores"
    assert done.stdout.splitlines()[-1].startswith("scaling of digits: unit, pixels 0..1 (LIGHTBOX_SCALING); ")
    assert list(tmp.iterdir()) == []


def test_a_file_with_its_channels_first_is_tried(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A model file, served by itself: the means of the picture's channels are its scores."""
    write_means(tmp_path / "means.xml", 40, 60)
    done = run(tmp_path_factory.mktemp("t"), tmp_path / "means.xml", "means", "--image", str(PICTURE))
    assert done.returncode == 0, done.stderr
    _, _, best_row, *_ = [line for line in done.stdout.splitlines() if line.startswith("|")]
    none, unit, *_ = [float(cell.split()[1]) for cell in best_row.strip("| ").split("|")]
    assert none == pytest.approx(255 * unit, rel=1e-3)
    assert none > 1
    assert "what means.xml does with them is not read" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch", "--image", str(PICTURE)], "MODEL: there is no model named 'nosuch' in"),
        (["image_mean", "--image", str(PICTURE)], "image_mean has image (uint8 [-1,8,8,3])"),
        (
            ["half_plus_two", "--image", str(PICTURE)],
            "MODEL: expected one that takes an image as floating-point pixels",
        ),
        (["--help"], ""),
        ([], "the following arguments are required: --image"),
    ],
)
def test_what_cannot_be_compared_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, GOLDEN, *arguments)
    assert (done.returncode == 0) == (arguments == ["--help"])
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("image", "words"), [("/nowhere/cat.jpg", "No such file"), (str(SERVE), "image")])
def test_a_file_that_is_no_image(sample_models: Path, tmp_path: Path, image: str, words: str) -> None:
    done = run(tmp_path, sample_models, "digits", "--image", image)
    assert done.returncode == 1
    assert without_times(done.stderr).startswith(f"[lightbox] --image: {image}")
    assert words in done.stderr


def test_a_folder_with_labels_counts_what_each_scaling_has_right(sample_models: Path, tmp_path: Path) -> None:
    for name in ("7", "3"):  # the same picture: one of them is wrong
        (tmp_path / "labelled" / name).mkdir(parents=True)
        shutil.copy(PICTURE, tmp_path / "labelled" / name)
    (tmp := tmp_path / "tmp").mkdir()
    done = run(tmp, sample_models, "digits", "--image", str(tmp_path / "labelled"))
    assert done.returncode == 0, done.stderr
    header, _, row = [line for line in done.stdout.splitlines() if line.startswith("|")]
    rights = dict(zip(header.strip("| ").split(" | "), row.strip("| ").split(" | "), strict=True))
    assert rights[next(name for name in rights if name.strip() == "unit")].strip() == "1 of 2"
    assert list(tmp.iterdir()) == []


def test_what_does_not_tell_the_scalings_apart_is_told() -> None:
    sure, unsure, wrong = [0.0, 1.0], [0.4, 0.6], [0.9, 0.1]
    *_, said = try_image.side_by_side({"none": [sure], "unit": [unsure]}, [])
    assert "Each scaling gives the same class: take an image that is harder to classify, or a folder" in said
    assert "same class" not in "".join(try_image.side_by_side({"none": [sure], "unit": [wrong]}, []))
    *_, row, said = try_image.rights({"none": [sure, wrong], "unit": [sure, sure], "tf": [unsure, wrong]}, [1, 0])
    assert row.split()[1::4] == ["2", "1", "2"]
    assert "none and tf are alike: take" in said


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
