"""``serve.sh tune`` with real stacks, on the digits model, in a short time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from lightbox.serving.settings_loading import load_settings
from support.isolation import own_environ
from support.log_lines import without_times
from support.patience import poll
from support.stack import SERVE, lives

pytestmark = pytest.mark.timeout(3600)

PICTURE = SERVE.parent / "docs" / "samples" / "digit-7.png"


TOO_LITTLE_TIME = re.compile(r"--seconds: expected at least (\d+)|was not ready within")
LONGEST_SECONDS = 1280


def start(tmp: Path, models: Path, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    settings = {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded", "TMPDIR": str(tmp)}
    return subprocess.Popen(
        [SERVE, "tune", *arguments],
        env=own_environ() | settings | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def refused(tmp: Path, models: Path, *arguments: str, **environ: str) -> str:
    """Return the last line of a failed run."""
    process = start(tmp, models, *arguments, **environ)
    output, errors = process.communicate()
    assert process.returncode not in (0, None)
    assert "Traceback" not in errors
    assert not output
    return without_times(errors).splitlines()[-1]


def test_a_short_run_tries_settings_and_leaves_nothing_behind(sample_models: Path, tmp_path: Path) -> None:
    arguments = ("digits", "--image", str(PICTURE), "--json")
    seconds = 20
    while seconds <= LONGEST_SECONDS:
        process = start(tmp_path, sample_models, *arguments, f"--seconds={seconds}", LIGHTBOX_ENGINE="tensorflow")
        output, errors = process.communicate()
        if process.returncode == 0 or not (said := TOO_LITTLE_TIME.search(errors)):  # on a slow or busy machine
            break
        seconds = max(2 * seconds, int(said[1] or 0))
    assert process.returncode == 0, errors
    report = json.loads(output)
    assert report["model"] == "digits"
    assert report["image"].startswith("digit-7.png")
    assert report["model_server"] == "embedded"
    assert report["possible"] >= len(report["tried"]) >= 1
    first = report["tried"][0]
    assert first["problem"] is None
    assert first["settings"] == {"LIGHTBOX_ENGINE": "auto"}
    assert all(part["base"] > 0 and part["mine"] > 0 for part in first["throughput"]["rounds"])
    for settings in report["best"].values():
        assert load_settings(settings or {})
    assert sum(" tried " in line for line in errors.splitlines()) == len(report["tried"])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_stops_what_was_started(sample_models: Path, tmp_path: Path) -> None:
    process = start(tmp_path, sample_models, "digits", f"--seconds={LONGEST_SECONDS}")
    family: list[psutil.Process] = []
    for _ in poll():
        family = psutil.Process(process.pid).children(recursive=True)
        if len(family) > 4:  # a supervisor and its children
            break
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert without_times(errors).splitlines()[-1] == "[lightbox] interrupted: all started processes are stopped"
    assert family
    assert [child for child in family if lives(child)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "MODEL: there is no model named 'nosuch' in"),
        (["--image", "/nowhere/cat.jpg"], "--image: /nowhere/cat.jpg cannot be read: No such file"),
        (["--image", str(SERVE)], "is no image of a format that Lightbox reads"),
        (["--seconds", "5"], "Invalid value for '--seconds': 5.0 is not in the range 10<=x<=86400."),
    ],
)
def test_wrong_arguments_are_refused(sample_models: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in refused(tmp_path, sample_models, *arguments)


@pytest.fixture
def slow_digits(sample_models: Path, tmp_path: Path) -> Path:
    """A folder with the digits model and a handler that sleeps some seconds per request."""
    models = tmp_path / "models"
    (models / "code").mkdir(parents=True)
    (models / "digits").symlink_to(sample_models / "digits")
    (models / "code" / "inference.py").write_text(
        "import time\ndef handler(data, context):\n    time.sleep(5)\n    return '{}', 'application/json'\n"
    )
    return models


def test_a_time_in_which_nothing_can_be_measured_is_refused(slow_digits: Path, tmp_path: Path) -> None:
    """Thirteen rounds of three requests on two stacks each take more than five minutes."""
    (tmp := tmp_path / "tmp").mkdir()
    line = refused(tmp, slow_digits, "digits", "--seconds", "300")
    said = re.fullmatch(r"\[lightbox\] --seconds: expected at least (\d+) for this model, got 300", line)
    assert said, line
    assert int(said[1]) > 300
    assert list(tmp.iterdir()) == []


def test_a_start_that_takes_longer_than_the_time_is_refused(slow_digits: Path, tmp_path: Path) -> None:
    (slow_digits / "code" / "inference.py").write_text("import threading; threading.Event().wait()")
    (tmp := tmp_path / "tmp").mkdir()
    line = refused(tmp, slow_digits, "digits", "--seconds", "10")
    assert re.fullmatch(r"\[lightbox\] digits cannot be served: it was not ready within -?\d+ s", line), line
    assert list(tmp.iterdir()) == []


def test_wrong_settings_are_refused(sample_models: Path, tmp_path: Path) -> None:
    assert "SAGEMAKER_GUNICORN_WORKERS: " in refused(tmp_path, sample_models, SAGEMAKER_GUNICORN_WORKERS="0")


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    version = tmp_path / "models" / "broken" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"none")
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    line = refused(tmp, tmp_path / "models")
    assert (
        f"broken cannot be served: LIGHTBOX_MODEL_DIR: {version}/saved_model.pb is not a SavedModel, or is damaged: "
        in line
    )
    assert list(tmp.iterdir()) == []


def test_a_model_that_takes_no_image_is_reported(tmp_path: Path) -> None:
    models = SERVE.parent / "tests" / "contract" / "golden" / "models"
    line = refused(tmp_path, models, "half_plus_two")
    assert "half_plus_two cannot be served: a request was answered with 415: " in line
