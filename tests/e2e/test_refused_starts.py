"""What only processes show of a start that cannot succeed: the exit code, and that nothing is left behind.

tests/unit/lightbox/test_refused_starts.py has the refusals.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lightbox.processes.run_dir import port_is_free
from support.isolation import own_environ
from support.log_lines import without_times
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import SERVE

pytestmark = pytest.mark.extended


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"LIGHTBOX_TRANSPORT": "carrier pigeon"}, "LIGHTBOX_TRANSPORT: "),
        ({}, "{models}/code/inference.py: importing it ended the process"),  # in a process of the start's
    ],
)
def test_a_refused_start_leaves_nothing_and_ends_as_check_does(
    tmp_path: Path, models: Path, environ: dict[str, str], sentence: str
) -> None:
    (models / "code").mkdir()
    (models / "code" / "inference.py").write_text("import os; os._exit(3)")
    (tmp := tmp_path / "tmp").mkdir()
    own = own_environ(tmp) | {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded"}
    for command in ("check", "serve"):
        done = subprocess.run(
            [SERVE, command],
            cwd=tmp_path,
            env=own | environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 1
        lines = [line.removeprefix("[lightbox] ") for line in without_times(done.stderr).splitlines()]
        assert any(line.startswith(sentence.format(models=models)) for line in lines), done.stderr
        assert "Traceback" not in done.stderr
        assert port_is_free(int(own["SAGEMAKER_BIND_TO_PORT"]))
        assert not list(tmp.iterdir()), "the run directory was left behind"


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_temporary_folder_that_is_full(tmp_path: Path, models: Path, command: str) -> None:
    """The folder is a file system of 256 KiB that only the command sees."""
    (tmp := tmp_path / "tmp").mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=256k none "$TMPDIR"; "$0" "$1" || (ls "$TMPDIR"; exit 1)'
    environ = {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded"}
    done = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-ec", script, str(SERVE), command],
        env=own_environ(tmp) | environ,
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
