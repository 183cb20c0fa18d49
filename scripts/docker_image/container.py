"""A running container of the image, used as a user does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from docker_image.docker import REPOSITORY, Engine, ProgramFailed
from lightbox.harness.http_client import status_of

HARDENED = (
    "--read-only",
    "--tmpfs=/tmp:exec",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--memory=1g",
    "--cpus=1",
    "--pids-limit=200",
)
"""How the image is meant to be run: no privilege, one writable folder, bounded."""
WIRES = ("grpc", "rest")
BOTH_WIRES = "--env=LIGHTBOX_TRANSPORT=grpc,rest"
"""What a container is run with that is asked over both wires."""
PATIENCE = 300
"""So many seconds what must come is waited for: a machine may be slow, or busy."""
MODELS_DIR = "/opt/ml/model"
SEVEN = (REPOSITORY / "docs" / "samples" / "digit-7.png").read_bytes()
"""A picture of a digit, which the sample model ``digits`` knows."""


class ContainerFailed(Exception):
    """A container did not become ready; the message holds its log."""


class Container:
    """A running container; its HTTP port is published on a free loopback port."""

    def __init__(self, engine: Engine, identity: str, port: int) -> None:
        self._engine = engine
        self.identity = identity
        self._port = self.published(port)
        self.url = f"http://127.0.0.1:{self._port}"

    def published(self, port: int) -> int:
        """Return the loopback port on which a container port is published."""
        return int(self._engine.run("port", self.identity, f"{port}/tcp").splitlines()[0].rpartition(":")[2])

    @property
    def log(self) -> str:
        """The log so far."""
        return self._engine.logs(self.identity)

    def inspect(self, template: str) -> str:
        """Return one field of the container's state."""
        return self._engine.inspect(template, self.identity)

    def execute(self, *command: str) -> str:
        """Run a command in the container and return what it printed; raise ProgramFailed when it fails."""
        return self._engine.run("exec", self.identity, *command)

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the JSON response; raise requests.RequestException."""
        answer = requests.request(method, f"{self.url}{path}", data=body, headers=headers, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def invoke(self, attributes: str = "") -> Any:
        """POST the digit and return the JSON response; raise requests.RequestException."""
        headers = {"Content-Type": "application/x-image", "X-Amzn-SageMaker-Custom-Attributes": attributes}
        return self.send("POST", "/invocations", SEVEN, headers)

    def is_ready(self) -> bool:
        """Whether /ping answers 200."""
        return status_of(self._port, "/ping") == 200

    def stop(self) -> int:
        """Send SIGTERM and return the exit code; after PATIENCE Docker kills the container, with code 137."""
        self._engine.run("stop", f"--time={PATIENCE}", self.identity, seconds=PATIENCE + 60)
        return int(self.inspect("{{.State.ExitCode}}"))


@contextmanager
def running(
    engine: Engine,
    image: str,
    models: Path,
    *words: str,
    options: tuple[str, ...] = HARDENED,
    port: int = 8080,
    at: str = f"{MODELS_DIR}:ro",
) -> Iterator[Container]:
    """Run an image until it answers HTTP on its own port; ``words`` follow its name on the command line.

    The models folder is mounted at ``at``: a path in the container, with ``:ro`` for a read-only mount.
    """
    volume = f"{models.resolve()}:{at}"
    # A container that stops within PATIENCE did not wait for the whole drain time.
    always = (f"--publish=127.0.0.1::{port}", f"--volume={volume}", "--env=LIGHTBOX_DRAIN_SECONDS=3600")
    identity = engine.run("run", "--detach", *always, *options, *engine.run_options, image, *words)
    try:
        container = Container(engine, identity, port)
        wait_for(lambda: container.is_ready() or container.inspect("{{.State.Running}}") != "true")
        if not container.is_ready():
            raise ContainerFailed(f"/ping did not answer 200:\n{container.log}")
        yield container
    except ProgramFailed as error:
        raise ContainerFailed(f"{error}\n{engine.logs(identity)}") from error
    finally:
        engine.run("rm", "--force", "--volumes", identity)


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds or PATIENCE ends."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
