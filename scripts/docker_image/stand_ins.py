"""Builds substitutes for the Dockerfile's base images where no image registry is reachable.

They have the same names in a private engine, so that the Dockerfile is built unchanged. The one for python has
Debian's packages, and in /usr/local a virtual environment of Debian's python3, because pip refuses to install into
Debian's own. The base size and the model server's binary differ from the published images.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from docker_image.docker import Engine, run

UNDOCUMENTED = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
"""Folders of /usr/share that Debian's slim images leave out, but for the copyright files."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
HOOKS = Path("/usr/share/mmdebstrap/hooks/merged-usr")
CUSTOMIZE = (
    'chroot "$1" python3 -m venv /usr/local',
    # No compiled modules, as in the official image; the files that installed pip are no longer needed.
    r'find "$1/usr/local" "$1/usr/share/python-wheels" \( -name "*.pyc" -o -name "*.whl" \) -delete',
    # The engine mounts over these files during a build; without them every layer would change /etc.
    'for name in hosts hostname resolv.conf; do : >"$1/etc/$name"; done',
    # This machine's mirrors may use private certificates.
    f"upload {BUNDLE} {BUNDLE}",
)
"""Commands of mmdebstrap in the folder of the system, $1, when its packages are there."""
MODEL_SERVER = Path(__file__).with_name("stand_in_model_server.py")
RUN_OPTIONS = ("--volume", f"{sysconfig.get_path('purelib')}:/opt/tensorflow:ro")
"""Where the stand-in of tensorflow_model_server looks for TensorFlow's runtime: this environment's packages."""


def tag_of(image: str) -> str:
    """Return an image's name and tag: a substitute has the name of the FROM line but another digest."""
    return image.partition("@")[0]


def can_stand_in(image: str) -> bool:
    """Whether Debian's python3 and this Python, which provides TensorFlow, both match the python image's version."""
    version, release = sysconfig.get_python_version(), platform.freedesktop_os_release()["VERSION_CODENAME"]
    return bool(re.fullmatch(rf"python:{re.escape(version)}\.\d+-slim-{release}", tag_of(image)))


def make_model_server(engine: Engine, folder: Path, tag: str, python: str) -> None:
    """Make the substitute of tensorflow/serving: an executable at the binary's path, on a base with a shell."""
    context = folder / "model_server"
    context.mkdir()
    shutil.copy(MODEL_SERVER, context / "tensorflow_model_server")
    (context / "Dockerfile").write_text(f"FROM {python}\nCOPY tensorflow_model_server /usr/bin/\n")
    engine.build(tag, context=context)


def make_python(engine: Engine, folder: Path, tag: str) -> None:
    """Make the image and import it under a tag; raise ProgramFailed."""
    archive = folder / "python.tar"
    run(
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        "--include=ca-certificates,netbase,python3-venv,tzdata,usr-is-merged",
        # These two stay in the image, for the Dockerfile's installations.
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNDOCUMENTED),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        *([f"--hook-dir={HOOKS}"] if HOOKS.is_dir() else []),
        *(f"--customize-hook={command}" for command in CUSTOMIZE),
        platform.freedesktop_os_release()["VERSION_CODENAME"],
        str(archive),
        *([str(SOURCES)] if SOURCES.exists() else []),
        environ={"TMPDIR": str(folder)},
    )
    # pip's settings for this machine's index, if any.
    indexes = re.findall(
        r"^(?:global|:env:)\.index-url='(http.+)'$", run(sys.executable, "-m", "pip", "config", "list"), re.MULTILINE
    )
    variables = [f"PIP_CERT={BUNDLE}", *(f"PIP_INDEX_URL={index}" for index in indexes[-1:])]
    engine.run("import", f"--change=ENV LANG=C.UTF-8 {' '.join(variables)}", str(archive), tag)
    archive.unlink()
