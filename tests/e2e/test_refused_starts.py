"""Starts that cannot succeed end at once. Their messages name the setting or path, without a traceback.

tests/unit/lightbox/test_refused_starts.py covers every refusal. These tests cover the parts that need processes:
``serve.sh`` passes on the message and the exit code, and leaves no files or processes behind.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.isolation import own_environ
from support.log_lines import without_times
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import SERVE, free_port

pytestmark = pytest.mark.extended


def refuse(tmp_path: Path, **environ: str) -> str:
    """Start with an environment, expect a refusal, and return its output."""
    tmp = tmp_path / "tmp"
    tmp.mkdir(exist_ok=True)
    base = own_environ() | {
        "TMPDIR": str(tmp),
        "LIGHTBOX_MODEL_SERVER": "embedded",
    }
    done = subprocess.run(
        [SERVE, "serve"],
        cwd=tmp_path,
        env=base | environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode not in (0, None), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp.iterdir()), "the run directory was left behind"
    return done.stderr


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


def test_every_wrong_setting_is_named(tmp_path: Path, models: Path) -> None:
    said = refuse(
        tmp_path,
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_TRANSPORT="carrier pigeon",
        LIGHTBOX_SCALLING="tf",
        SAGEMAKER_GUNICORN_WORKERS="many",
    )
    lines = [line for line in said.splitlines() if line.startswith(("LIGHTBOX_", "SAGEMAKER_"))]
    assert [line.split(":")[0] for line in lines] == [
        "LIGHTBOX_SCALLING",
        "LIGHTBOX_TRANSPORT",
        "SAGEMAKER_GUNICORN_WORKERS",
    ]
    assert "did you mean LIGHTBOX_SCALING?" in lines[0]


def test_a_model_that_cannot_be_served(tmp_path: Path, models: Path) -> None:
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(models))
    assert str(models / "broken/1") in said


def test_no_folder_to_write_to(tmp_path: Path, models: Path) -> None:
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(models), TMPDIR="/proc/nowhere")
    assert "TMPDIR: Lightbox needs a writable folder, and /proc/nowhere is not one" in said


def test_unknown_commands_show_the_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [SERVE, "dance"], cwd=tmp_path, env=own_environ(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: lightbox")
    assert "No such command 'dance'." in done.stderr


def test_check_gives_the_sentence_with_which_a_start_gives_up(tmp_path: Path, models: Path) -> None:
    """The start runs the user's code in child processes: serve logs the message, and check ends with it."""
    (models / "code").mkdir()
    (models / "code" / "inference.py").write_text("import os; os._exit(3)")
    environ = {
        "LIGHTBOX_MODEL_DIR": str(models),
        "LIGHTBOX_MODEL_SERVER": "embedded",
        "SAGEMAKER_BIND_TO_PORT": str(free_port()),
    }
    checked = subprocess.run(
        [SERVE, "check"], env=own_environ() | environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert checked.returncode == 1
    sentence = checked.stderr.splitlines()[-1]
    assert sentence.startswith(f"{models / 'code' / 'inference.py'}: importing it ended the process")
    assert f"[lightbox] {sentence}" in without_times(refuse(tmp_path, **environ)).splitlines()


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_temporary_folder_that_is_full(tmp_path: Path, models: Path, command: str) -> None:
    """The folder is a file system of 256 KiB that only the command sees."""
    (tmp := tmp_path / "tmp").mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=256k none "$TMPDIR"; "$0" "$1" || (ls "$TMPDIR"; exit 1)'
    environ = {"TMPDIR": str(tmp), "LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded"}
    done = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-ec", script, str(SERVE), command],
        env=own_environ() | environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    expected = f"TMPDIR: a start needs 1,048,576 bytes, and {tmp} has "
    assert done.stderr.splitlines()[-1].startswith(expected)
    assert "Traceback" not in done.stderr
    assert "lightbox-" not in done.stdout, "the run directory was left behind"
