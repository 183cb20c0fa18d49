"""The images that Pillow itself is tested with: they come in its source distribution, fetched once by pip."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from support.patience import PATIENCE

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "build" / "pillow"
REQUIREMENT = REPOSITORY / "requirements" / "pillow_images.txt"


def pillow_images() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every file in Pillow's ``Tests/`` that is no program."""
    with tarfile.open(_source()) as archive:
        for member in archive:
            inside = member.name.partition("/Tests/")[2]
            content = archive.extractfile(member) if inside and not inside.endswith(".py") else None
            if content is not None:
                yield inside, content.read()


def _source() -> Path:
    """Return the archive, whose hash pip has checked."""
    if not list(FOLDER.glob("*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        how = ["--no-binary=pillow", "--require-hashes", f"--dest={FOLDER}", f"--requirement={REQUIREMENT}"]
        subprocess.run([*command, *how], check=True, timeout=PATIENCE)
    (archive,) = FOLDER.glob("*.tar.gz")
    return archive
