"""Provides the checked server as a program ``tensorflow_model_server`` that serve.sh finds on PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RECORD = REPOSITORY / "tests" / "contract" / "golden"
"""The transcripts, and the models that they were recorded with."""

NAME = "tensorflow_model_server"
EMBEDDED = (sys.executable, "-P", "-m", "lightbox.model_runtime.server")
KINDS = ("binary", "docker", "embedded")


class NoServer(Exception):
    """The server is not available here; the message names the missing part."""


@contextmanager
def program(kind: str | None, image: str, folder: Path) -> Iterator[Path]:
    """Yield a program in ``folder`` that starts the server; remove remaining Docker containers at the end.

    Without a ``kind`` it is the binary on PATH, else ``image`` in Docker. It sees the files below ``folder`` and the
    repository. Raises NoServer.
    """
    label = f"lightbox-check={uuid.uuid4().hex}"
    path = folder / "bin" / NAME
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {shlex.join(_command(kind, image, folder, label))} "$@"\n')
    path.chmod(0o755)
    try:
        yield path
    finally:
        if shutil.which("docker"):
            left = _output("docker", "ps", "--quiet", "--filter", f"label={label}").split()
            if left:
                _output("docker", "rm", "--force", *left)


def version(path: Path) -> str:
    """Return the server's version output in one line."""
    return ", ".join(_output(str(path), "--version").split("\n")).strip(", ")


def _command(kind: str | None, image: str, folder: Path, label: str) -> list[str]:
    binary = shutil.which(NAME)
    if kind == "embedded":
        return [*EMBEDDED, "--as_tensorflow_serving"]
    if binary and kind != "docker":
        return [binary]
    if kind == "binary" or not shutil.which("docker"):
        raise NoServer(f"there is no {NAME} on PATH" + ("" if kind == "binary" else ", and no docker"))
    mounts = [f"--volume={folder}:{folder}", f"--volume={REPOSITORY}:{REPOSITORY}:ro"]
    user = f"--user={os.getuid()}:{os.getgid()}"
    # Without an init process the server would be process 1, which ignores an uncaught SIGTERM.
    run = ["docker", "run", "--rm", "--init", "--network=host", user, f"--label={label}", *mounts]
    return [*run, "--entrypoint", f"/usr/bin/{NAME}", image]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 - our own words
