"""``serve.sh try`` with the digits model, which was trained on pixels 0..1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.log_lines import without_times
from support.patience import PATIENCE
from support.stack import SERVE, clean_environ
from tune.trying import best

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


def test_the_best_of_other_outputs() -> None:
    boxes = {"detection_classes": [3.0, 1.0], "detection_scores": [0.2, 0.9], "detection_boxes": [[0.0] * 4] * 2}
    assert best(boxes, ["none", "cat", "", "dog"]) == ["1 cat 0.9", "3 dog 0.2"]
    assert best({"mask": [[1, 2]], "logits": [-1, 5, 2]}, []) == ["1 5", "2 2", "0 -1"]
    assert best([0.5], []) == ["[0.5]"]
