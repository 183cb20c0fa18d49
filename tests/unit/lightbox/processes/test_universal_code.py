"""The universal script of multi-model mode, brought from a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from lightbox.processes.run_dir import RunDir
from lightbox.processes.universal_code import fetch_universal_code
from lightbox.settings_loading import load_settings
from lightbox.user_code.errors import UserCodeError


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunDir:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return RunDir()


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="scripts")
        yield


def put(*keys: str) -> None:
    for key in keys:
        boto3.client("s3").put_object(Bucket="scripts", Key=key, Body=key.encode())


def fetch(run_dir: RunDir, bucket: str = "scripts", prefix: str = "team/a") -> Path | None:
    environ = {"SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": bucket, "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": prefix}
    return fetch_universal_code(load_settings(environ), run_dir)


def test_without_a_bucket_there_is_none(run_dir: RunDir) -> None:
    assert fetch_universal_code(load_settings({}), run_dir) is None


@pytest.mark.parametrize("inner", ["", "code/"])
def test_files_come_with_their_folders(run_dir: RunDir, inner: str) -> None:
    put(f"team/a/{inner}inference.py", f"team/a/{inner}lib/helper.py", "team/ab/inference.py", "team/a/empty/")
    folder = fetch(run_dir)
    assert folder is not None
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == ["inference.py", "lib/helper.py"]
    assert (folder / "inference.py").read_text() == f"team/a/{inner}inference.py"


@pytest.mark.parametrize(("bucket", "prefix"), [("scripts", "nowhere"), ("nobody", "team/a")])
def test_what_cannot_be_had_is_said(run_dir: RunDir, bucket: str, prefix: str) -> None:
    with pytest.raises(UserCodeError, match=f"SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET: .*{bucket}"):
        fetch(run_dir, bucket, prefix)


def test_a_key_cannot_leave_the_folder(run_dir: RunDir) -> None:
    put("team/a/../../../etc/evil.py")
    with pytest.raises(UserCodeError, match="leads out"):
        fetch(run_dir)
