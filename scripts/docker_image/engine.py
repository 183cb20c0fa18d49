"""Finds a Docker Engine that can build the image: the user's own, or a private one with stand-ins for the base images.

The user's engine is used as it is, and only where the base images are at hand or can be pulled; nothing but the
image that is built is left in it. Elsewhere root on Debian gets an engine of its own, for the length of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from docker_image import private_engine, stand_ins
from docker_image.docker import Docker
from docker_image.dockerfile import REPOSITORY, argument, without_digest
from docker_image.programs import ProgramFailed
from lightbox.telemetry import say


@dataclass(frozen=True)
class Engine:
    """An engine with the base images; the options are what it needs beside those of a user."""

    docker: Docker
    build_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    real_model_server: bool = True

    def build(self, tag: str, *options: str) -> None:
        """Build the project's Dockerfile, unchanged; raise ProgramFailed."""
        self.docker.build(REPOSITORY, tag, *self.build_options, *options)


class NoEngine(Exception):
    """There is no engine and none can be started; the message says what is missing."""


@contextmanager
def find_engine() -> Iterator[Engine]:
    """Give an engine that can build the image; raise NoEngine with a reason."""
    problem = _problem_of(Docker())
    if problem is None:
        yield Engine(Docker())
        return
    missing = private_engine.what_is_missing()
    if missing:
        raise NoEngine(f"{problem}, and a private engine cannot be started here: {missing}")
    say.progress(f"{problem}: starting a private engine with stand-ins for the base images")
    with private_engine.running() as (docker, folder):
        yield _with_stand_ins(docker, folder)


def _problem_of(docker: Docker) -> str | None:
    """Return why the user's engine cannot build the image, None when it can."""
    try:
        docker.run("version", seconds=20)
    except ProgramFailed:
        return "no Docker engine answers"
    for image in (argument("PYTHON_IMAGE"), argument("TFS_IMAGE")):
        try:
            docker.run("image", "inspect", image)
        except ProgramFailed:
            try:
                docker.run("pull", "--quiet", image, seconds=600)
            except ProgramFailed:
                return f"the Docker engine here has no {image} and cannot pull it"
    return None


def _with_stand_ins(docker: Docker, folder: Path) -> Engine:
    python, model_server = (without_digest(argument(name)) for name in ("PYTHON_IMAGE", "TFS_IMAGE"))
    stand_ins.make_python(docker, folder, python)
    stand_ins.make_model_server(docker, folder, model_server, python)
    return Engine(
        docker,
        # The private engine does no address translation: builds use the network of this machine.
        build_options=(
            "--network=host",
            f"--build-arg=PYTHON_IMAGE={python}",
            f"--build-arg=TFS_IMAGE={model_server}",
        ),
        run_options=("--volume", f"{stand_ins.tensorflow_packages()}:{stand_ins.TENSORFLOW_DIR}:ro"),
        real_model_server=False,
    )
