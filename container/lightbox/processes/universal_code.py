"""Code for all models from S3, as AWS's container has it for multi-model endpoints.

``SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET`` and ``_PREFIX`` name it; code for all models that lies here wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightbox.settings import Settings
from lightbox.user_code.errors import UserCodeError

MOST_FILES, MOST_BYTES = 10_000, 2 << 30
"""Of code for all models: a prefix that leads to a folder of models or data by mistake does not fill the disk."""

NAMES = "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET and SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX"


def download_universal_code(settings: Settings, folder: Path, shared: Iterable[Path]) -> Path | None:
    """Download the code into ``folder`` and return it; None where the settings ask for none, or ``shared`` has some.

    Raises UserCodeError when it cannot be had.
    """
    bucket, prefix = settings.universal_bucket, settings.universal_prefix
    if not (bucket and prefix) or any(place.exists() for place in shared):
        return None
    try:
        import boto3
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise UserCodeError(f"{NAMES}: boto3 is needed to download from S3, and is not installed") from None
    place = f"s3://{bucket}/{prefix}"
    try:
        found = _download(boto3.client("s3"), bucket, prefix, folder)
    # The last two: names that are no file's, a name that is a folder's as well, a disk that is full.
    except (BotoCoreError, Boto3Error, ClientError, OSError, ValueError) as error:
        raise UserCodeError(f"{NAMES}: {place} cannot be downloaded: {error}") from error
    if not found:
        raise UserCodeError(f"{NAMES}: there is nothing at {place}")
    return folder


def _download(client: Any, bucket: str, prefix: str, folder: Path) -> int:
    """Return how many files there were; those whose names lead out of ``folder`` are left out."""
    found, size = 0, 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            target = (folder / name_of(entry["Key"], prefix)).resolve()
            if entry["Key"].endswith("/") or not target.is_relative_to(folder.resolve()):
                continue
            found, size = found + 1, size + entry["Size"]
            if found > MOST_FILES or size > MOST_BYTES:
                raise UserCodeError(
                    f"{NAMES}: expected at most {MOST_FILES} files of {MOST_BYTES >> 30} GiB together at "
                    f"s3://{bucket}/{prefix}, found more"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, entry["Key"], str(target))
    return found


def name_of(key: str, prefix: str) -> str:
    """Return an object's name below ``code/``: the prefix is a folder, or the beginning of names in one."""
    folder = prefix if prefix.endswith("/") else f"{prefix}/"
    return key.removeprefix(folder) if key.startswith(folder) else key[prefix.rfind("/") + 1 :]
