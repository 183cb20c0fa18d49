"""Writes the digest of each image beside its tag: REGISTRY=HOST python scripts/pin_base_images.py [--check]

Asks the registry for the manifest that a tag names now, by the OCI distribution API, and writes `NAME:TAG@sha256:…`
into the Dockerfile and the manifests: the tag tells readers what it is, the digest is what is built. An image whose
name has no host is looked for at REGISTRY. With --check nothing is asked or written: what has no digest is told.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests

REPOSITORY = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/models.yaml")
REFERENCE = re.compile(
    r"^(?P<before>ARG \w+_IMAGE=|\s*image: )(?P<name>[a-z0-9.:/_-]+):(?P<tag>[\w.-]+)"
    r"(?P<digest>@sha256:[0-9a-f]{64})?$",
    re.MULTILINE,
)
"""An image with a tag; what is built here has none."""
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""What a registry may answer; the first two are for all architectures."""
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 30


class Unresolved(Exception):
    """The digest of an image cannot be had; the message names it and says why."""


def main(
    arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ, root: Path = REPOSITORY
) -> int:
    """Pin all images, or check that they are; return the exit code."""
    parser = argparse.ArgumentParser(prog="pin_base_images", description=__doc__)
    parser.add_argument("--check", action="store_true", help="tell what has no digest, and ask nobody")
    options = parser.parse_args(arguments)
    files = [root / name for name in FILES]
    if options.check:
        loose = [f"{file.name}: {found['name']}:{found['tag']}" for file in files for found in references(file)]
        print("\n".join(f"{entry} has no digest" for entry in loose) or "every image has a digest")
        return 1 if loose else 0
    try:
        digests = {image: resolve(*image, environ) for file in files for image in _images(file)}
    except (Unresolved, requests.RequestException) as problem:
        print(f"pin_base_images: {problem}", file=sys.stderr)
        return 1
    for file in files:
        write(file, digests)
    for (name, tag), digest in digests.items():
        print(f"{name}:{tag}@{digest}")
    return 0


def references(file: Path) -> list[re.Match[str]]:
    """Return the images of a file that have no digest."""
    return [
        found for found in REFERENCE.finditer(file.read_text()) if not found["digest"] and _is_public(found["name"])
    ]


def write(file: Path, digests: Mapping[tuple[str, str], str]) -> None:
    """Write digests, by name and tag, beside the tags of a file."""

    def pinned(found: re.Match[str]) -> str:
        digest = digests.get((found["name"], found["tag"]))
        return f"{found['before']}{found['name']}:{found['tag']}@{digest}" if digest else found[0]

    file.write_text(REFERENCE.sub(pinned, file.read_text()))


def resolve(name: str, tag: str, environ: Mapping[str, str]) -> str:
    """Return the digest that a tag names now; raise Unresolved."""
    host, repository = _place(name, environ)
    scheme = "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"
    url = f"{scheme}://{host}/v2/{repository}/manifests/{tag}"
    headers = {"Accept": ", ".join(MANIFESTS)}
    answer = requests.get(url, headers=headers, timeout=_SECONDS)
    if answer.status_code == 401:
        headers["Authorization"] = f"Bearer {_token(answer.headers.get('WWW-Authenticate', ''), name)}"
        answer = requests.get(url, headers=headers, timeout=_SECONDS)
    if answer.status_code != 200:
        raise Unresolved(f"{name}:{tag}: expected a manifest, got status {answer.status_code} of {host}")
    digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    told = answer.headers.get("Docker-Content-Digest", digest)
    if told != digest:
        raise Unresolved(f"{name}:{tag}: {host} says that the manifest is {told}, but what it sent is {digest}")
    return digest


def _images(file: Path) -> list[tuple[str, str]]:
    found = REFERENCE.finditer(file.read_text())
    return [(match["name"], match["tag"]) for match in found if _is_public(match["name"])]


def _is_public(name: str) -> bool:
    """Tell whether an image is somebody's: those of example.com stand for the reader's own."""
    return ".example.com/" not in name


def _place(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the registry's host and the repository, by the rules of image names."""
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    host = environ.get("REGISTRY")
    if not host:
        raise Unresolved(f"REGISTRY: expected the host of the registry that has {name}, which names none")
    return host, name if slash else f"library/{name}"


def _token(challenge: str, name: str) -> str:
    """Return the token that a registry asks for in WWW-Authenticate; anybody gets one for what is public."""
    asked = dict(_PARAMETER.findall(challenge))
    if not challenge.lower().startswith("bearer ") or "realm" not in asked:
        raise Unresolved(f"{name}: the registry asks for {challenge[:100]!r}, and only Bearer tokens are known")
    answer = requests.get(asked.pop("realm"), params=asked, timeout=_SECONDS)
    if answer.status_code != 200:
        raise Unresolved(f"{name}: the registry gives no token for it, status {answer.status_code}")
    token = answer.json()
    return str(token.get("token") or token.get("access_token"))


if __name__ == "__main__":
    sys.exit(main())
