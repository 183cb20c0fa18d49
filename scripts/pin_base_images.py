"""Writes the digest of each image beside its tag: REGISTRY=HOST python scripts/pin_base_images.py

Resolves each tag to its current manifest with skopeo, and writes `NAME:TAG@sha256:…` into the Dockerfile
and the manifests: the tag is for readers, the digest decides the build. An image name without a host is
resolved at REGISTRY.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/models.yaml", "deploy/helm/lightbox/values.yaml")
REFERENCE = re.compile(
    r"^(?P<before>ARG \w+_IMAGE=|\s*(?:i|s3I)mage: )(?P<name>[a-z0-9.:/_-]+):(?P<tag>[\w.-]+)"
    r"(?P<digest>@sha256:[0-9a-f]{64})?$",
    re.MULTILINE,
)
"""An image with a tag; what is built here has none."""
_SECONDS = 60


class Unresolved(Exception):
    """The digest of an image cannot be resolved; the message names the image and the reason."""


def main(environ: Mapping[str, str] = os.environ, root: Path = REPOSITORY) -> int:
    """Pin all images; return the exit code."""
    files = [root / name for name in FILES]
    found = [image for file in files for image in public_images(file)]
    try:
        tags = dict.fromkeys((image["name"], image["tag"]) for image in found)
        digests = {tag: resolve(*tag, environ) for tag in tags}
    except Unresolved as problem:
        print(f"pin_base_images: {problem}", file=sys.stderr)
        return 1
    for file in files:
        write(file, digests)
    for (name, tag), digest in digests.items():
        print(f"{name}:{tag}@{digest}")
    return 0


def without_digest(root: Path) -> list[str]:
    """Return the public images that a tag alone names, as FILE: NAME:TAG."""
    found = [(name, image) for name in FILES for image in public_images(root / name)]
    return [f"{name}: {image['name']}:{image['tag']}" for name, image in found if not image["digest"]]


def public_images(file: Path) -> list[re.Match[str]]:
    """Return the public images of a file: those at example.com are placeholders for the reader's own."""
    return [found for found in REFERENCE.finditer(file.read_text()) if ".example.com/" not in found["name"]]


def write(file: Path, digests: Mapping[tuple[str, str], str]) -> None:
    """Write digests, by name and tag, beside the tags of a file."""

    def pinned(found: re.Match[str]) -> str:
        digest = digests.get((found["name"], found["tag"]))
        return f"{found['before']}{found['name']}:{found['tag']}@{digest}" if digest else found[0]

    file.write_text(REFERENCE.sub(pinned, file.read_text()))


def resolve(name: str, tag: str, environ: Mapping[str, str]) -> str:
    """Return the current digest of a tag; raise Unresolved."""
    first, slash, rest = name.partition("/")
    has_host = slash and ("." in first or ":" in first or first == "localhost")
    host, repository = (first, rest) if has_host else (environ.get("REGISTRY"), name if slash else f"library/{name}")
    if not host:
        raise Unresolved(f"REGISTRY: expected the host of the registry that has {name}, which names none")
    options = ["--tls-verify=false"] if host.partition(":")[0] in ("localhost", "127.0.0.1") else []
    command = ["skopeo", "inspect", "--raw", *options, f"docker://{host}/{repository}:{tag}"]
    try:
        manifest = subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS).stdout  # noqa: S603
    except subprocess.CalledProcessError as problem:
        raise Unresolved(f"{name}:{tag}: {problem.stderr.decode(errors='replace').strip()}") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unresolved(f"{name}:{tag}: {problem}") from None
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


if __name__ == "__main__":
    sys.exit(main())
