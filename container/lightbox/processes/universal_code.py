"""The universal inference script of multi-model mode: code for all models, brought from S3 at start.

SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET and SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX name it, as in AWS's container.
"""

from __future__ import annotations

from pathlib import Path

from lightbox.processes.run_dir import RunDir
from lightbox.settings import Settings
from lightbox.user_code.errors import UserCodeError

BUCKET = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET"
MAX_BYTES = 500 << 20


def fetch_universal_code(settings: Settings, run_dir: RunDir) -> Path | None:
    """Download what lies below bucket and prefix; return its folder, None when no bucket is set.

    Raises UserCodeError with one sentence when it cannot be had.
    """
    if not settings.universal_bucket:
        return None
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise UserCodeError(f"{BUCKET}: boto3 is needed to read it and is not installed here") from None
    folder = run_dir.path / "universal_code"
    prefix = settings.universal_prefix.strip("/")
    start = f"{prefix}/" if prefix else ""
    try:
        pages = boto3.client("s3").get_paginator("list_objects_v2")
        found = [
            item
            for page in pages.paginate(Bucket=settings.universal_bucket, Prefix=start)
            for item in page.get("Contents", [])
            if not item["Key"].endswith("/")
        ]
        if sum(item["Size"] for item in found) > MAX_BYTES:
            raise UserCodeError(f"{BUCKET}: more than {MAX_BYTES >> 20} MiB lie below {start!r}: is that the code?")
        for item in found:
            target = _target(folder, str(item["Key"]).removeprefix(start))
            target.parent.mkdir(parents=True, exist_ok=True)
            boto3.client("s3").download_file(settings.universal_bucket, item["Key"], str(target))
    except (BotoCoreError, ClientError) as error:
        raise UserCodeError(f"{BUCKET}: s3://{settings.universal_bucket}/{start} cannot be read: {error}") from None
    if not found:
        raise UserCodeError(f"{BUCKET}: nothing lies in s3://{settings.universal_bucket}/{start}")
    return folder


def _target(folder: Path, key: str) -> Path:
    """Return where a file goes: keys may name the code folder or lie in it, but not leave ours."""
    target = (folder / key.removeprefix("code/")).resolve()
    if folder.resolve() not in target.parents:
        raise UserCodeError(f"{BUCKET}: the key {key!r} leads out of its folder")
    return target
