"""A separate repository with the packaged files, and the packages of its commit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import release
from support.stack import REPOSITORY

FOLDERS = ("container", "deploy", "scripts", "requirements")
FILES = (".gitignore", "pyproject.toml", "setup.py", "CHANGELOG.md", "README.md", "LICENSE", "Dockerfile", "serve.sh")


def git(repository: Path, *arguments: str) -> None:
    """Run git there with a fixed identity."""
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    subprocess.run(["git", "-C", repository, *identity, *arguments], check=True, capture_output=True)


def committed(folder: Path) -> Path:
    """Copy the packaged files in their current state to a new folder and commit them; return the folder."""
    subprocess.run([REPOSITORY / "scripts" / "ensure_debian.sh", "git", "git"], check=True, capture_output=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so.1", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(REPOSITORY / name, folder / name)
    (folder / "build").mkdir()
    (folder / "build" / "compiler").symlink_to(REPOSITORY / "build" / "compiler")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return folder


def packages(folder: Path) -> Path:
    """Make the wheels and the source distribution; return their folder."""
    out = folder / "packages"
    out.mkdir(parents=True)
    release.make_packages(release.Release(committed(folder / "repository"), out, is_candidate=True))
    return out
