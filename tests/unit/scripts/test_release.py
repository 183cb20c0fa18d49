"""The files that ``make release`` makes in a separate repository, and the releases it refuses."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import release
from docker_image.docker import Engine
from docker_image.engine import NoEngine
from docker_image.parts import part
from lightbox import __version__
from pin_base_images import FILES, public_images, write
from support.released import committed, git
from support.stack import REPOSITORY

EM_X86_64, EM_AARCH64 = 62, 183
"""Names of the processor in the head of a program."""
pytestmark = pytest.mark.extended

NAME = f"lightbox-{__version__}"
PACKAGE = f"lightbox_serve-{__version__}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return committed(tmp_path / "repository")


def made(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": f"{repository}/container:{repository}/scripts"}
    command = [sys.executable, str(repository / "scripts" / "release.py"), "--images", "none", *options]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_a_candidate_and_its_release_have_the_same_files(repository: Path, tmp_path: Path) -> None:
    (repository / "container" / "lightbox" / "not_committed.py").write_text("1 / 0\n")
    first, again = tmp_path / "first", tmp_path / "again"
    for out in (first, again):
        done = made(repository, "--candidate", "--out", str(out))
        assert done.returncode == 0, done.stderr
    assert "nothing was pushed" in done.stdout
    assert "without a digest, so a release is refused until REGISTRY=HOST make pin-images: Dockerfile: " in done.stdout
    wheels = [f"{PACKAGE}-py3-none-manylinux_2_17_{machine}.whl" for machine in release.MACHINES]
    assert sorted(path.name for path in first.iterdir()) == sorted(
        ["SHA256SUMS", f"{NAME}-notes.md", f"{PACKAGE}.tar.gz", *wheels]
    )
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=first, check=True, capture_output=True)
    assert (first / "SHA256SUMS").read_text() == (again / "SHA256SUMS").read_text()
    ours = {
        str(path.relative_to(repository / "container"))
        for path in (repository / "container" / "lightbox").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    library = "lightbox/model_runtime/native/liblightbox.so.1"
    for wheel, machine in zip(wheels, (EM_X86_64, EM_AARCH64), strict=True):
        with zipfile.ZipFile(first / wheel) as file:
            packed = {name for name in file.namelist() if ".dist-info/" not in name}
            assert packed ^ ours == {"lightbox/not_committed.py", library}
            assert struct.unpack_from("<4s14xH", file.read(library)) == (b"\x7fELF", machine)
            about = file.read(f"{PACKAGE}.dist-info/METADATA")
            assert f"{PACKAGE}.dist-info/licenses/LICENSE" in file.namelist()
    assert b"License-Expression: Apache-2.0" in about
    with tarfile.open(first / f"{PACKAGE}.tar.gz") as archive:
        packed_about = archive.extractfile(f"{PACKAGE}/PKG-INFO")
        assert packed_about is not None and packed_about.read() == about


def test_a_release_wants_a_date_digests_a_tag_and_no_change(repository: Path) -> None:
    undated = made(repository)
    assert undated.returncode == 1
    assert f"expected '## {__version__} (YYYY-MM-DD)', got '## {__version__} (unreleased)'" in undated.stderr
    page = repository / "CHANGELOG.md"
    page.write_text(page.read_text().replace("(unreleased)", "(2026-11-23)", 1))
    loose = made(repository)
    assert loose.returncode == 1
    assert "expected NAME:TAG@sha256:DIGEST as REGISTRY=HOST make pin-images writes it, got Docker" in loose.stderr
    assert "python:" in loose.stderr and "amazon/aws-cli:" in loose.stderr
    for file in (repository / name for name in FILES):
        digests = {(image["name"], image["tag"]): f"sha256:{'0' * 64}" for image in public_images(file)}
        write(file, digests)
    changed = made(repository)
    assert changed.returncode == 1
    assert "expected no change that is not committed, got M CHANGELOG.md M Dockerfile" in changed.stderr
    git(repository, "commit", "--quiet", "--all", "-m", "Date the release")
    untagged = made(repository)
    assert untagged.returncode == 1
    assert f"expected the tag v{__version__} at HEAD, got none" in untagged.stderr
    git(repository, "tag", f"v{__version__}")
    done = made(repository)
    assert done.returncode == 0, done.stderr
    notes = (repository / "build" / "release" / f"{NAME}-notes.md").read_text()
    assert notes.startswith(f"# Lightbox {__version__}\n\n- ")


@pytest.mark.parametrize(
    ("changelog", "why"),
    [
        ("# Changelog\n", "expected the heading '## 0.2.0 (YYYY-MM-DD)', the first one is none"),
        ("## 0.1.0 (2026-01-02)\n\n- a\n", "the first one is ## 0.1.0 (2026-01-02)"),
        ("## 0.2.0 (2026-01-02)\n\n## 0.1.0 (2026-01-01)\n\n- a\n", "expected what is new below '## 0.2.0"),
        ("## 0.2.0 (soon)\n\n- a\n", "got '## 0.2.0 (soon)'"),
    ],
)
def test_a_changelog_without_the_version(changelog: str, why: str) -> None:
    with pytest.raises(release.Refused, match=re.escape(why)):
        release.notes_of(changelog, "0.2.0", needs_date=True)


def test_notes_end_where_the_next_version_begins() -> None:
    changelog = "# Changelog\n\n## 0.2.0 (2026-01-02)\n\n- b\n\n## 0.1.0 (2026-01-01)\n\n- a\n"
    assert release.notes_of(changelog, "0.2.0", needs_date=True) == "# Lightbox 0.2.0\n\n- b\n"


class Recorder(Engine):
    """An engine on amd64 that records its calls."""

    asked: list[tuple[str, ...]]

    def run(self, *arguments: str, seconds: float = 120) -> str:
        """See Engine."""
        self.asked.append(arguments)
        if arguments[0] == "save":
            Path(arguments[2]).write_text(arguments[3])
        return "amd64" if arguments[0] == "version" else ""


def images(monkeypatch: pytest.MonkeyPatch, out: Path, *, is_real: bool, is_candidate: bool) -> list[str]:
    """Make images with the recorder; return the platforms and stages that were built."""
    engine = Recorder(real_model_server=is_real)
    object.__setattr__(engine, "asked", [])

    @contextmanager
    def found() -> Iterator[Engine]:
        yield engine

    monkeypatch.setattr(release, "find_engine", found)
    monkeypatch.setattr("docker_image.parts.parts", lambda *_: [part("flask", "pkg:pypi/flask@3.1.3", "BSD-3-Clause")])
    release.make_images(release.Release(REPOSITORY, out, is_candidate))
    builds = [arguments for arguments in engine.asked if arguments[0] == "build"]
    assert all(f"--build-arg=VERSION={__version__}" in arguments for arguments in builds)
    pairs = [(part for part in arguments if part.startswith(("--target=", "--platform="))) for arguments in builds]
    return [" ".join(pair) for pair in pairs]


def test_all_images_for_both_architectures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert images(monkeypatch, tmp_path, is_real=True, is_candidate=False) == [
        "--target=lightbox --platform=linux/amd64",
        "--target=embedded --platform=linux/amd64",
        "--target=embedded --platform=linux/arm64",
        "--target=openvino --platform=linux/amd64",
        "--target=openvino --platform=linux/arm64",
    ]
    names = release.write_sums(tmp_path)
    assert len(names) == 15
    assert f"{NAME}-openvino-arm64.cdx.json" in names
    assert "| pypi | flask | 3.1.3 | BSD-3-Clause |" in (tmp_path / f"{NAME}-lightbox-amd64-licences.md").read_text()


def test_stand_ins_are_for_candidates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match="published base images"):
        images(monkeypatch, tmp_path, is_real=False, is_candidate=False)
    built = images(monkeypatch, tmp_path, is_real=False, is_candidate=True)
    assert {pair.partition("linux/")[2] for pair in built} == {"amd64"}
    assert all("-stand-in" in name for name in release.write_sums(tmp_path))


def test_no_wheel_is_made_without_the_library(repository: Path, tmp_path: Path) -> None:
    (repository / "scripts" / "portable_cc.sh").write_text("#!/bin/sh\nexit 1\n")
    done = made(repository, "--candidate", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert ".whl: the native library is missing: expected portable_cc.sh to compile it" in done.stderr
