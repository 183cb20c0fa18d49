"""Code for all models from a bucket with odd names and sizes: Lightbox downloads it, or refuses it with an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.planning import make_plan
from lightbox.user_code import s3 as user_code_s3
from lightbox.user_code.paths import UserCodeError, find_inference
from lightbox.user_code.s3 import download_universal_code
from support import s3
from support.models import copy_golden
from support.user_code import write


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The objects of the served bucket. Tests add their own."""
    objects: dict[str, str] = {"team/code/inference.py": "x = 1\n"}
    monkeypatch.setattr(s3, "OBJECTS", objects)
    with s3.serving() as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield objects


def download(folder: Path, prefix: str = "team/code/") -> Path | None:
    return download_universal_code("models", prefix, folder / "inside", [])


def test_code_in_the_model_directory_wins(
    bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    copy_golden("half_plus_two", tmp_path / "models" / "half_plus_two")
    file = write(tmp_path / "models" / "code" / "inference.py", "def handler(data, context): ...")
    settings = load_settings(s3.universal("models", "team/code/") | {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models")})
    with RunDir() as run_dir:
        plan = make_plan(settings, run_dir)
        assert find_inference(plan.models["half_plus_two"].code_dirs) == file
        assert not list(run_dir.path.rglob("*.py"))
    file.unlink()
    file.parent.rmdir()
    with RunDir() as run_dir:
        plan = make_plan(settings, run_dir)
        (found,) = run_dir.path.rglob("*.py")
        assert find_inference(plan.models["half_plus_two"].code_dirs) == found


@pytest.mark.parametrize(
    "key", ["../out.py", "lib/../../out.py", "/out.py", "//out.py", "lib/../../inside-too/out.py", "..", "lib/.."]
)
def test_names_that_lead_out_are_left_out(bucket: dict[str, str], tmp_path: Path, key: str) -> None:
    bucket[f"team/code/{key}"] = "x = 2\n"
    try:
        download(tmp_path)
    except UserCodeError as refused:  # the key is the folder itself
        assert "s3://models/team/code/" in str(refused)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "inside" / "inference.py"]
    assert not Path("/out.py").exists()


@pytest.mark.parametrize("keys", [["a", "a/b"], ["x" * 300], ["lib/" + "y/" * 2500 + "z"]])
def test_names_that_no_file_can_have_refuse_the_start(bucket: dict[str, str], tmp_path: Path, keys: list[str]) -> None:
    bucket.update({f"team/code/{key}": "" for key in keys})
    with pytest.raises(UserCodeError, match="s3://models/team/code/ cannot be downloaded"):
        download(tmp_path)


def test_an_object_that_is_listed_and_gone_refuses_the_start(
    bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_code_s3, "name_of", lambda key, prefix: bucket.pop(key) and key)
    with pytest.raises(UserCodeError, match="cannot be downloaded"):
        download(tmp_path)


@pytest.mark.parametrize(("limit", "value"), [("MOST_FILES", 5), ("MOST_BYTES", 100)])
def test_more_than_code_can_be_is_not_downloaded(
    bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    bucket.update({f"team/code/lib/{number}.py": "x" * 30 for number in range(20)})
    monkeypatch.setattr(user_code_s3, limit, value)
    with pytest.raises(UserCodeError, match=r"expected at most .* s3://models/team/code/, found more"):
        download(tmp_path)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) <= 5
