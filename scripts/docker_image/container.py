"""A running container of the image, used as a user does."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import requests

from docker_image.docker import REPOSITORY, Engine
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import ServerProcess

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
TRANSPORTS = ("grpc", "rest")
BOTH_TRANSPORTS = "--env=LIGHTBOX_TRANSPORT=grpc,rest"
"""The option of a container that receives requests over both transports."""
PATIENCE = 300
"""So many seconds what must come is waited for: a machine may be slow, or busy."""
MODELS_DIR = "/opt/ml/model"
SEVEN = (REPOSITORY / "docs" / "samples" / "digit-7.png").read_bytes()
"""A picture of a digit, which the sample model ``digits`` knows."""


class Container(ServerProcess):
    """``docker run`` of an image, attached: its log and exit code are the container's.

    As a context manager it waits until /ping answers 200, or raises ServerFailed. ``words`` follow the image's name on
    the command line. The container's ``port`` is published on a free loopback port. The models folder is mounted at
    ``at``: a path in the container, with ``:ro`` for a read-only mount.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        models: Path,
        *words: str,
        options: tuple[str, ...] = HARDENED,
        port: int = 8080,
        at: str = f"{MODELS_DIR}:ro",
    ) -> None:
        self._engine = engine
        self.name = f"lightbox-{uuid.uuid4().hex}"
        self._port = free_ports()
        self.url = f"http://127.0.0.1:{self._port}"
        volume, published = f"{models.resolve()}:{at}", f"127.0.0.1:{self._port}:{port}"
        # A container that stops within PATIENCE did not wait for the whole drain time.
        always = ("--name", self.name, "--publish", published, "--volume", volume, "--env=LIGHTBOX_DRAIN_SECONDS=3600")
        command = [*engine.client, "run", *always, *options, *engine.run_options, image, *words]
        super().__init__(command, os.environ)

    def __enter__(self) -> Self:
        try:
            self.wait_until(lambda: status_of(self._port, "/ping") == 200, PATIENCE)
        except BaseException:
            self.close()
            raise
        return self

    def close(self, patience: float = 40.0) -> None:
        """Remove the container."""
        self._engine.can("rm", "--force", "--volumes", self.name)
        super().close(patience)

    def inspect(self, template: str) -> str:
        """Return one field of the container's state."""
        return self._engine.inspect(template, self.name)

    def execute(self, *command: str) -> str:
        """Run a command in the container and return what it printed; raise ProgramFailed when it fails."""
        return self._engine.run("exec", self.name, *command)

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the JSON response; raise requests.RequestException."""
        response = requests.request(method, f"{self.url}{path}", data=body, headers=headers, timeout=PATIENCE)
        response.raise_for_status()
        return response.json() if response.content else None

    def invoke(self, attributes: str = "") -> Any:
        """POST the digit and return the JSON response; raise requests.RequestException."""
        headers = {"Content-Type": "application/x-image", "X-Amzn-SageMaker-Custom-Attributes": attributes}
        return self.send("POST", "/invocations", SEVEN, headers)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code; raise TimeoutExpired after PATIENCE."""
        self.process.terminate()
        return self.process.wait(PATIENCE)
