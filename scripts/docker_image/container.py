"""One running container of the image, spoken to as a user would."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker_image.docker import Docker
from docker_image.programs import ProgramFailed

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

READY_SECONDS = ANSWER_SECONDS = STOP_SECONDS = 300
"""So long what must come is waited for: a machine may be slow, or busy."""
_DRAIN = "--env=LIGHTBOX_DRAIN_SECONDS=3600"
"""A container that stops within STOP_SECONDS has not waited for the end of its drain."""
MODELS_DIR = "/opt/ml/model"


class ContainerFailed(Exception):
    """A container did not become ready; the message holds its log."""


class Container:
    """A container that runs; its HTTP port is published on a free port of the loopback interface."""

    def __init__(self, docker: Docker, identity: str, port: int) -> None:
        self._docker = docker
        self.identity = identity
        self.url = f"http://{self.address(port)}"

    def address(self, port: int) -> str:
        """Return where a published port of the container is found on this machine."""
        published = self._docker.run("port", self.identity, f"{port}/tcp").splitlines()[0]
        return f"127.0.0.1:{published.rpartition(':')[2]}"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._docker.logs(self.identity)

    def inspect(self, template: str) -> str:
        """Return one field of the container's state."""
        return self._docker.inspect(template, self.identity)

    def execute(self, *command: str) -> str:
        """Run a command in the container and return what it printed; raise ProgramFailed when it fails."""
        return self._docker.run("exec", self.identity, *command)

    def changed_files(self) -> list[str]:
        """Return the paths that differ from the image's, mounts aside."""
        return [line.split(maxsplit=1)[1] for line in self._docker.run("diff", self.identity).splitlines()]

    def ping(self) -> int:
        """Return the status of /ping, 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/ping", timeout=5) as answer:  # noqa: S310 - loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def invoke(self, body: bytes, attributes: str) -> Any:
        """POST an image and return the JSON of the answer; raise urllib.error.HTTPError."""
        headers = {"Content-Type": "application/x-image", "X-Amzn-SageMaker-Custom-Attributes": attributes}
        return json.loads(self.send("POST", "/invocations", body, headers))

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a request and return the body of its answer; raise urllib.error.HTTPError."""
        request = urllib.request.Request(f"{self.url}{path}", body, dict(headers or {}), method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - loopback
            content: bytes = answer.read()
        return content

    def stop(self) -> int:
        """Send SIGTERM and return the exit code; after STOP_SECONDS it would be killed and the code 137."""
        self._docker.run("stop", f"--time={STOP_SECONDS}", self.identity, seconds=STOP_SECONDS + 60)
        return int(self.inspect("{{.State.ExitCode}}"))

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.inspect("{{.State.Running}}") == "true"

    def wait_ready(self) -> None:
        """Wait until /ping answers 200; raise ContainerFailed with the log."""
        wait_for(lambda: self.ping() == 200 or not self.is_running(), READY_SECONDS)
        if self.ping() != 200:
            raise ContainerFailed(f"/ping did not answer 200:\n{self.log}")


@contextmanager
def running(
    docker: Docker,
    image: str,
    models: Path,
    *words: str,
    options: tuple[str, ...],
    port: int = 8080,
    at: str = f"{MODELS_DIR}:ro",
) -> Iterator[Container]:
    """Run an image until it answers HTTP on a port of its own; ``words`` follow its name on the command line.

    The folder of models is mounted as ``at`` says: a path in the container, and ``:ro`` for one that cannot be written.
    """
    volume = f"{models.resolve()}:{at}"
    publish = f"--publish=127.0.0.1::{port}"
    identity = docker.run("run", "--detach", publish, "--volume", volume, _DRAIN, *options, image, *words)
    try:
        container = Container(docker, identity, port)
        container.wait_ready()
        yield container
    except ProgramFailed as error:
        raise ContainerFailed(f"{error}\n{docker.logs(identity)}") from error
    finally:
        docker.run("rm", "--force", "--volumes", identity)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again until a condition holds, and return whether it did before the deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return condition()
