"""Makes the parts of a release in build/release/, and pushes nothing: ``make release``.

The parts are packages, images with bill of materials and licences, release notes, and checksums. The version is
in container/lightbox/__init__.py. docs/releasing.md describes the whole procedure.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docker_image.docker import Engine, ProgramFailed, run
from docker_image.engine import NoEngine, find_engine
from docker_image.parts import write_parts
from lightbox import __version__
from lightbox.base.telemetry import say
from pin_base_images import without_digest

REPOSITORY = Path(__file__).resolve().parents[1]
IMAGES = (
    ("lightbox", "amd64"),  # TensorFlow Serving is published only for this architecture
    ("embedded", "amd64"),
    ("embedded", "arm64"),
    ("openvino", "amd64"),
    ("openvino", "arm64"),
)
"""Stages of the Dockerfile, with the architectures that they are made for."""
MACHINES = ("x86_64", "aarch64")
"""Machines that wheels are compiled for; others build the archive of the sources."""
PIP_WHEEL = (
    *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
    *("--no-deps", "--no-build-isolation", "--no-cache-dir"),
)
SUMS = "SHA256SUMS"
NAME = f"lightbox-{__version__}"
"""The start of the files' names."""
PACKAGE = f"lightbox_serve-{__version__}"
"""The start of the packages' names, as pip spells the distribution."""


class Refused(Exception):
    """The repository is not ready for a release; the message says what to do."""


@dataclass(frozen=True)
class Release:
    """A release of the repository's version in a folder. A candidate may be unfinished: it is a rehearsal."""

    repository: Path
    out: Path
    is_candidate: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the release and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "release", help="folder, emptied before")
    parser.add_argument(
        "--candidate", action="store_true", help="rehearse: without a date in the changelog, a tag or published images"
    )
    parser.add_argument("--images", choices=("all", "none"), default="all", help="none: packages and notes alone")
    options = parser.parse_args(arguments)
    try:
        release = Release(REPOSITORY, options.out.resolve(), options.candidate)
        notes = check(release)
        make(release, notes, with_images=options.images == "all")
    except (Refused, ProgramFailed, NoEngine) as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 1
    return 0


def check(release: Release) -> str:
    """Return the release notes; raise Refused unless the repository is ready."""
    text = (release.repository / "CHANGELOG.md").read_text()
    notes = notes_of(text, __version__, needs_date=not release.is_candidate)
    loose = ", ".join(without_digest(release.repository))
    if release.is_candidate:
        if loose:
            say.progress(f"without a digest, so a release is refused until REGISTRY=HOST make pin-images: {loose}")
        return notes
    if loose:
        raise Refused(f"expected NAME:TAG@sha256:DIGEST as REGISTRY=HOST make pin-images writes it, got {loose}")
    if changed := _git(release, "status", "--porcelain"):
        raise Refused(f"git: expected no change that is not committed, got {' '.join(changed.split()[:20])}")
    tags = _git(release, "tag", "--points-at", "HEAD").split()
    if f"v{__version__}" not in tags:
        raise Refused(f"git: expected the tag v{__version__} at HEAD, got {', '.join(tags) or 'none'}")
    return notes


def notes_of(changelog: str, version: str, *, needs_date: bool) -> str:
    """Return the text below the first heading; raise Refused for another version, no text or no date."""
    first = re.search(r"^(## [^\n]*)(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    heading, text = first.groups() if first else ("none", "")
    if not heading.startswith(f"## {version} ("):
        raise Refused(f"CHANGELOG.md: expected the heading '## {version} (YYYY-MM-DD)', the first one is {heading}")
    if needs_date and not re.search(r"\(\d{4}-\d{2}-\d{2}\)$", heading):
        raise Refused(f"CHANGELOG.md: expected '## {version} (YYYY-MM-DD)', got '{heading}'")
    if not text.strip():
        raise Refused(f"CHANGELOG.md: expected what is new below '{heading}', got nothing")
    return f"# Lightbox {version}\n\n{text.strip()}\n"


def make(release: Release, notes: str, *, with_images: bool) -> None:
    """Fill the folder of the release."""
    shutil.rmtree(release.out, ignore_errors=True)
    release.out.mkdir(parents=True)
    (release.out / f"{NAME}-notes.md").write_text(notes)
    make_packages(release)
    if with_images:
        make_images(release)
    else:
        say.progress("images: left out, as --images none says; a release needs them")
    files = write_sums(release.out)
    say.progress(f"{len(files)} files and {SUMS} in {release.out}; nothing was pushed")


def make_packages(release: Release) -> None:
    """Make the wheels and the source distribution, reproducibly: the same commit gives the same files."""
    dated = {"SOURCE_DATE_EPOCH": _git(release, "log", "-1", "--format=%ct"), "PYTHON": sys.executable}
    compiler = release.repository / "scripts" / "portable_cc.sh"
    archive = ("archive", "HEAD", f"--prefix={PACKAGE}/")
    with tempfile.TemporaryDirectory() as folder:
        # From the commit: untracked files, such as an older build/, must not be included.
        _git(release, *archive, f"--output={folder}/sources.tar")
        run("tar", "-xf", f"{folder}/sources.tar", "-C", folder)
        for machine in MACHINES:
            say.progress(f"wheel for {machine}")
            platform = f"--config-settings=--build-option=--plat-name=manylinux_2_17_{machine}"
            run(
                *PIP_WHEEL,
                platform,
                f"--wheel-dir={release.out}",
                f"{folder}/{PACKAGE}",
                seconds=300,
                environ={**dated, "CC": f"{shlex.quote(str(compiler))} {machine}"},
            )
        say.progress("sources")
        # An index requires only the wheel's metadata in a source distribution, beside the commit's files.
        about = Path(folder, "PKG-INFO")
        for path in release.out.glob("*.whl"):
            with zipfile.ZipFile(path) as wheel:
                if "lightbox/model_runtime/native/liblightbox.so.1" not in wheel.namelist():
                    raise Refused(f"{path.name}: the native library is missing: expected {compiler.name} to compile it")
                about.write_bytes(wheel.read(f"{PACKAGE}.dist-info/METADATA"))
        about.chmod(0o644)
        _git(release, *archive, f"--add-file={about}", f"--output={release.out / PACKAGE}.tar.gz")


def make_images(release: Release) -> None:
    """Build each image for each architecture, save it, and list its contents; raise NoEngine or ProgramFailed."""
    with find_engine() as engine:
        if not engine.real_model_server and not release.is_candidate:
            raise NoEngine("images of a release need a Docker engine that has, or can pull, the published base images")
        here = engine.run("version", "--format", "{{.Server.Arch}}").strip()
        revision = _git(release, "rev-parse", "HEAD")
        for stage, architecture in IMAGES:
            if architecture != here and not engine.real_model_server:
                say.progress(f"{stage} for {architecture}: left out, the stand-ins for base images are {here} alone")
                continue
            make_image(release, engine, stage, architecture, revision)


def make_image(release: Release, engine: Engine, stage: str, architecture: str, revision: str) -> None:
    """Build one image and write its archive, its bill of materials and the licences of its parts."""
    tag = f"lightbox:{__version__}-{stage}-{architecture}"
    say.progress(f"{tag}: building")
    engine.build(
        tag,
        f"--target={stage}",
        f"--platform=linux/{architecture}",
        f"--build-arg=VERSION={__version__}",
        f"--build-arg=REVISION={revision}",
    )
    name = f"{NAME}-{stage}-{architecture}" + ("" if engine.real_model_server else "-stand-in")
    engine.run("save", "--output", str(release.out / f"{name}.tar"), tag, seconds=600)
    write_parts(engine, tag, __version__, release.out / name)


def write_sums(folder: Path) -> list[str]:
    """Write the checksums of a folder's files, as ``sha256sum --check`` reads them; return the files' names."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    lines = []
    for path in files:
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / SUMS).write_text("".join(lines))
    return [path.name for path in files]


def _git(release: Release, *arguments: str) -> str:
    return run("git", "-C", str(release.repository), *arguments)


if __name__ == "__main__":
    sys.exit(main())
