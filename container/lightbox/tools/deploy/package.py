"""model.tar.gz: a folder of models with its code/, the way SageMaker unpacks it to /opt/ml/model."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from botocore.exceptions import ClientError

from lightbox.base.telemetry import say
from lightbox.model_runtime.formats import holds_model

LEFT_OUT = {"__pycache__", ".git", ".DS_Store", ".ipynb_checkpoints"}


def package(models: Path, code: Path | None, target: Path) -> Path:
    """Write the archive; the same files give the same bytes. Raise click.ClickException when there is no model."""
    if not any(map(holds_model, filter(Path.is_dir, (models, *models.rglob("*"))))):
        raise click.ClickException(f"{models} holds no model")
    if code is not None and (models / "code").exists():
        raise click.ClickException(f"{models / 'code'} is there already: leave --code out, or take that folder away")
    members = dict(_files(models, Path()))
    if code is not None:
        members |= dict(_files(code, Path("code")))
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
    say.progress(f"{target}: {len(members)} files, {target.stat().st_size / 1e6:.1f} MB")
    return target


def _files(root: Path, under: Path) -> list[tuple[str, Path]]:
    paths = (path for path in root.rglob("*") if path.is_file() and not LEFT_OUT & set(path.parts))
    return [((under / path.relative_to(root)).as_posix(), path) for path in paths]


def upload(s3: Any, archive: Path, folder: str) -> str:
    """Upload an archive below an s3:// folder, named by its content, and return its URL; existing ones are not sent."""
    parts = urlsplit(folder)
    if parts.scheme != "s3" or not parts.netloc:
        raise click.ClickException(f"--to: expected s3://BUCKET/FOLDER, got {folder!r}")
    with archive.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    bucket, key = parts.netloc, "/".join(filter(None, [parts.path.strip("/"), digest[:16], "model.tar.gz"]))
    try:
        s3.head_object(Bucket=bucket, Key=key)
        say.progress(f"s3://{bucket}/{key}: already there")
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        s3.upload_file(str(archive), bucket, key)
        say.progress(f"s3://{bucket}/{key}: uploaded")
    return f"s3://{bucket}/{key}"
