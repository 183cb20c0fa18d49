"""Try code while serving, in real processes, with each failure of an import."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.supervisor.starting.child_environment import CONTAINER_DIR
from lightbox.supervisor.starting.code_trial import try_code
from lightbox.user_code.api_detection import forget_folder, load_functions
from lightbox.user_code.paths import UserCodeError
from support.patience import PATIENCE, poll

pytestmark = pytest.mark.extended


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(CONTAINER_DIR))  # as in a worker
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def model(folder: Path, source: str) -> PlannedModel:
    folder.mkdir()
    (folder / "inference.py").write_text(source)
    return PlannedModel(name="a", base_path=folder, options=ModelOptions(), code_dirs=(folder / "none", folder))


# More of it: test_code_setup.py.
def test_code_that_cannot_be_used(tmp_path: Path, run_dir: Path) -> None:
    with pytest.raises(UserCodeError) as caught:
        try_code(model(tmp_path / "code", "import os; os._exit(0)"), run_dir, PATIENCE)
    said = ": importing it ended the process with exit code 0"
    assert str(caught.value).startswith(f"{tmp_path / 'code' / 'inference.py'}{said}")
    assert list(run_dir.iterdir()) == []


def test_what_is_imported_here_is_not_in_the_way(tmp_path: Path, run_dir: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "flask.py").write_text("raise AssertionError")
    (other / "inference.py").write_text("def handler(data, context): ...")
    load_functions(other / "inference.py")
    assert str(other) in os.environ["PYTHONPATH"]
    try_code(model(tmp_path / "code", "def handler(data, context): ..."), run_dir, PATIENCE)
    forget_folder(other)


@pytest.mark.extended
def test_code_that_does_not_end(tmp_path: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, wait = tmp_path / "begun", subprocess.Popen.wait

    def time_passes(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        """Replace a wait with a timeout: raise TimeoutExpired as soon as the import has begun."""
        if timeout is None:
            return wait(process)
        assert any(begun.exists() for _ in poll())
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", time_passes)
    source = f"import pathlib, signal\npathlib.Path({str(begun)!r}).touch()\nsignal.pause()"
    with pytest.raises(UserCodeError, match="importing it did not end within 7 s"):
        try_code(model(tmp_path / "code", source), run_dir, seconds=7)
    assert list(run_dir.iterdir()) == []
