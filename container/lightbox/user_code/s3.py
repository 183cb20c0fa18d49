"""Code for all models from S3: SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET and _PREFIX."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightbox.user_code.paths import UserCodeError

MOST_FILES, MOST_BYTES = 10_000, 2 << 30
"""Limits of code for all models: a wrong prefix with models or data must not fill the disk."""

NAMES = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET and SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX"


def download_universal_code(
    bucket: str | None, prefix: str | None, folder: Path, shared: Iterable[Path]
) -> Path | None:
    """Download the code for all models into ``folder`` and return it; None without a bucket and a prefix, or if
    ``shared`` has some.

    Raises UserCodeError on failure.
    """
    if not (bucket and prefix) or any(source.exists() for source in shared):
        return None
    try:
        import boto3
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise UserCodeError(f"{NAMES}: boto3 is needed to download from S3, and is not installed") from None
    source = f"s3://{bucket}/{prefix}"
    try:
        found = _download(boto3.client("s3"), bucket, prefix, folder)
    # The last two: names that are not file names, a name that is also a folder, a full disk.
    except (BotoCoreError, Boto3Error, ClientError, OSError, ValueError) as error:
        raise UserCodeError(f"{NAMES}: {source} cannot be downloaded: {error}") from error
    if not found:
        raise UserCodeError(f"{NAMES}: there is nothing at {source}")
    return folder


def _download(client: Any, bucket: str, prefix: str, folder: Path) -> int:
    """Return the number of files; names that lead outside ``folder`` are skipped."""
    count, size = 0, 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            target = (folder / name_of(entry["Key"], prefix)).resolve()
            if entry["Key"].endswith("/") or not target.is_relative_to(folder.resolve()):
                continue
            count, size = count + 1, size + entry["Size"]
            if count > MOST_FILES or size > MOST_BYTES:
                raise UserCodeError(
                    f"{NAMES}: expected at most {MOST_FILES} files of {MOST_BYTES >> 30} GiB together at "
                    f"s3://{bucket}/{prefix}, found more"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, entry["Key"], str(target))
    return count


def name_of(key: str, prefix: str) -> str:
    """Return an object's name below ``code/``: the prefix is a folder, or the beginning of names in one."""
    folder = prefix if prefix.endswith("/") else f"{prefix}/"
    return key.removeprefix(folder) if key.startswith(folder) else key[prefix.rfind("/") + 1 :]
