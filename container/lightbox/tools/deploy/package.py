"""model.tar.gz: a folder of models with its code/, the way SageMaker unpacks it to /opt/ml/model."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

from lightbox.base.telemetry import say
from lightbox.model_runtime.formats import holds_model
from lightbox.tools.deploy.aws_calls import Aws, Refused

LEFT_OUT = {"__pycache__", ".git", ".DS_Store", ".ipynb_checkpoints"}


def package(models: Path, code: Path | None, target: Path) -> Path:
    """Write the archive; the same files give the same bytes. Raise Refused when there is no model."""
    if not any(map(holds_model, filter(Path.is_dir, (models, *models.rglob("*"))))):
        raise Refused(f"{models} holds no model")
    if code is not None and (models / "code").exists():
        raise Refused(f"{models / 'code'} is there already: leave --code out, or take that folder away")
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
            with path.open("rb") as content:
                archive.addfile(_entry(name, path), content)
    say.progress(f"{target}: {len(members)} files, {target.stat().st_size / 1e6:.1f} MB")
    return target


def _files(root: Path, under: Path) -> list[tuple[str, Path]]:
    paths = (path for path in root.rglob("*") if path.is_file() and not LEFT_OUT & set(path.parts))
    return [((under / path.relative_to(root)).as_posix(), path) for path in paths]


def _entry(name: str, path: Path) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = path.stat().st_size, 0o644
    return entry


def upload(aws: Aws, archive: Path, folder: str) -> str:
    """Upload an archive below an s3:// folder, named by its content, and return its URL; existing ones are not sent."""
    bucket, prefix = split_s3(folder)
    with archive.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    key = "/".join(filter(None, [prefix, digest[:16], "model.tar.gz"]))

    def send() -> None:
        if aws.dry_run:
            aws.call("s3", "put_object", Bucket=bucket, Key=key, Body=b"")
        else:
            aws.client("s3").upload_file(str(archive), bucket, key)

    url = f"s3://{bucket}/{key}"
    aws.ensure(url, lambda: aws.find("s3", "head_object", Bucket=bucket, Key=key), send)
    return url


def split_s3(url: str) -> tuple[str, str]:
    """Return bucket and key of s3://bucket/key; raise Refused for anything else."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise Refused(f"{url!r} is no s3://bucket/folder")
    return parts.netloc, parts.path.strip("/")
