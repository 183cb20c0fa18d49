"""Pillow's own test images, from its source distribution, which pip fetches once."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from support.made_models import made
from support.patience import PATIENCE
from support.stack import REPOSITORY

REQUIREMENT = "requirements/pillow_images.txt"


def pillow_images() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every file in Pillow's ``Tests/`` except programs."""
    (source,) = made("pillow", _download, (REQUIREMENT,)).glob("*.tar.gz")
    with tarfile.open(source) as archive:
        for member in archive:
            inside = member.name.partition("/Tests/")[2]
            content = archive.extractfile(member) if inside and not inside.endswith(".py") else None
            if content is not None:
                yield inside, content.read()


def _download(folder: Path) -> None:
    """Fetch the archive; pip checks its hash."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    how = ["--no-binary=pillow", "--require-hashes", f"--dest={folder}", f"--requirement={REPOSITORY / REQUIREMENT}"]
    subprocess.run([*command, *how], check=True, timeout=PATIENCE)
