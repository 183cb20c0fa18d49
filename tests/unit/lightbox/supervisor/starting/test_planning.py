"""The plan of a start, such as the folders of the shared code, and the options of each model."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.planning import make_plan
from lightbox.user_code.paths import find_inference, find_requirements
from support.user_code import write


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    folders = {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models"), "LIGHTBOX_CODE_DIR": str(tmp_path / "code")}
    return folders | {"SAGEMAKER_MULTI_MODEL": "true"}


def shared(environ: dict[str, str]) -> tuple[Path, ...]:
    with RunDir() as run_dir:
        return make_plan(load_settings(environ), run_dir).shared_code_dirs


def test_code_for_all_of_many_models_lies_in_two_places(tmp_path: Path, environ: dict[str, str]) -> None:
    places = shared(environ)
    old = write(tmp_path / "models" / "code" / "inference.py", "")
    requirements = write(tmp_path / "models" / "code" / "requirements.txt", "")
    assert find_inference(places) == old
    new = write(tmp_path / "code" / "inference.py", "")
    assert find_inference(places) == new
    assert find_requirements(places) == [requirements]


def test_sagemakers_folder_is_the_default() -> None:
    assert load_settings({"SAGEMAKER_MULTI_MODEL": "true"}).code_dir == Path("/opt/ml/code")


@pytest.mark.parametrize("place", ["code", "models/code"])
def test_code_that_is_here_is_not_downloaded(tmp_path: Path, environ: dict[str, str], place: str) -> None:
    file = write(tmp_path / place / "inference.py", "")
    bucket = {"SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": "none", "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": "none"}
    assert find_inference(shared(environ | bucket)) == file
