"""What the project's Dockerfile says, as far as the stand-ins need it."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = REPOSITORY / "Dockerfile"


def argument(name: str) -> str:
    """Return the default of a build argument: the name of a base image, for instance."""
    found = re.search(rf"^ARG {name}=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    if found is None:
        raise KeyError(f"{DOCKERFILE} declares no ARG {name}")
    return found[1]


def without_digest(image: str) -> str:
    """Return an image's name and tag: a stand-in has the name in the FROM line, and a digest of its own."""
    return image.partition("@")[0]
