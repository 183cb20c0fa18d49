"""model.tar.gz: its content, and a single upload."""

from __future__ import annotations

import tarfile
from pathlib import Path

import boto3
import click
import pytest

from lightbox.cli import main
from lightbox.tools.deploy.package import package, upload
from support.deployment import REGION
from support.model_files import write_dense_as


@pytest.fixture
def models(tmp_path: Path) -> Path:
    version = tmp_path / "models" / "digits" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"graph")
    return tmp_path / "models"


def test_models_and_code_lie_as_sagemaker_unpacks_them(models: Path, tmp_path: Path) -> None:
    code = tmp_path / "mine"
    (code / "__pycache__").mkdir(parents=True)
    (code / "inference.py").write_text("")
    (code / "__pycache__" / "inference.pyc").write_bytes(b"")
    archive = package(models, code, tmp_path / "out" / "model.tar.gz")
    with tarfile.open(archive) as opened:
        assert opened.getnames() == ["code/inference.py", "digits/1/saved_model.pb"]


def test_the_same_files_give_the_same_bytes(models: Path, tmp_path: Path) -> None:
    archives = [package(models, None, tmp_path / name).read_bytes() for name in ("a.tar.gz", "b.tar.gz")]
    assert archives[0] == archives[1]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"holds no model"):
        package(tmp_path, None, tmp_path / "model.tar.gz")


def test_models_of_other_formats_are_packed_from_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "models" / "net" / "1" / "model.onnx"
    write_dense_as(file)
    with tarfile.open(package(tmp_path / "models", None, tmp_path / "model.tar.gz")) as opened:
        assert opened.getnames() == ["net/1/model.onnx"]
    with pytest.raises(click.ClickException, match=r"model.onnx holds no model"):
        package(file, None, tmp_path / "model.tar.gz")


def test_an_archive_is_sent_once(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": REGION})
    archive = package(models, None, tmp_path / "model.tar.gz")
    urls = [upload(s3, archive, "s3://models/lightbox/") for _ in range(2)]
    assert urls[0] == urls[1]
    bucket, _, key = urls[0].removeprefix("s3://").partition("/")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == archive.read_bytes()
    assert "already there" in capsys.readouterr().out
    with pytest.raises(click.ClickException, match="--to: expected s3://BUCKET/FOLDER, got 'https://b/lightbox'"):
        upload(s3, archive, "https://b/lightbox")


def test_a_missing_bucket_is_a_sentence(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(models), "--out", str(tmp_path / "model.tar.gz"), "--to", "s3://missing/models"]
    assert main(["deploy", "package", *words]) == 1
    assert "The specified bucket does not exist" in capsys.readouterr().err
