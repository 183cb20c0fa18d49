"""Starts and stops the measured servers: Lightbox and others."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lightbox.tools.harness import stack as harness_stack
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import ServerProcess
from lightbox.tools.harness.stack import clean_environ

REPOSITORY = Path(__file__).resolve().parents[2]
VENV = REPOSITORY / ".venv-bench"
"""The virtual environment of the other servers."""
REAL = "tensorflow_model_server"
RIVALS = Path(__file__).with_name("rivals")


@dataclass(frozen=True)
class Address:
    """HTTP on loopback; ``front`` is the gRPC address of the Open Inference Protocol, "" if there is none."""

    port: int
    front: str = ""
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Base address of the HTTP side."""
        return f"http://{self.host}:{self.port}"


@dataclass
class Running:
    """A server; ``ready`` are the seconds until its first response."""

    server: ServerProcess
    address: Address
    temporary: Path | None = None
    ready: float = 0.0

    @property
    def pid(self) -> int:
        """The root process of the server."""
        return self.server.process.pid

    def when_ready(self, health: str) -> Running:
        """Return the server when a path answers 200; raise ServerFailed if it never does."""
        try:
            self.ready = self.server.wait_until(lambda: status_of(self.address.port, health) == 200)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop the server, then kill its remaining processes."""
        self.server.close()
        if self.temporary:
            shutil.rmtree(self.temporary, ignore_errors=True)


class Server(Protocol):
    """A server declaration; comparable, so that scenarios with the same server share it."""

    @property
    def name(self) -> str:
        """The display name in the pages."""
        ...

    def start(self, folder: Path) -> Running:
        """Start the server with its files in its own folder, and return when it answers. Raises ServerFailed."""
        ...


@dataclass(frozen=True)
class Rival:
    """A script of rivals/ that serves HTTP on the given port; ``health`` answers 200 when it is ready.

    ``settings`` are environment variables.
    """

    name: str
    script: str
    health: str
    settings: tuple[tuple[str, str], ...] = ()

    def start(self, folder: Path) -> Running:
        """Start the server in the virtual environment of the others."""
        port = free_ports(2)
        command = [str(VENV / "bin" / "python"), str(RIVALS / self.script), str(port)]
        environ = clean_environ() | {"PYTHONPATH": str(REPOSITORY / "scripts"), "PYTHONUNBUFFERED": "1"}
        server = ServerProcess(command, environ | dict(self.settings), folder)
        return Running(server, Address(port)).when_ready(self.health)


@dataclass(frozen=True)
class Stack:
    """nginx, gunicorn and a model server over a folder of models; ``settings`` are environment variables.

    With ``front`` it also serves the Open Inference Protocol over gRPC. ``checkout`` is the Lightbox that is started,
    by the words ``within`` before its command.
    """

    name: str
    models: Path
    settings: tuple[tuple[str, str], ...] = ()
    front: bool = False
    checkout: Path = REPOSITORY
    within: tuple[str, ...] = ()

    def start(self, folder: Path) -> Running:
        """Start the stack as a user does: ``serve.sh serve``."""
        # Unix socket paths are limited in length: the run directory cannot lie deep in a working copy.
        tmp = Path(tempfile.mkdtemp(prefix="lb-bench-"))
        front = free_ports() if self.front else None
        # Requests that measure a transport name it. The embedded server has all transports, the binary only gRPC.
        given = dict(self.settings)
        is_binary = "LIGHTBOX_ENGINE" not in given and model_server() == REAL
        settings = {
            "LIGHTBOX_MODEL_DIR": str(self.models),
            "LIGHTBOX_LINKED_FOLDERS": str(REPOSITORY / "build"),
            **({"LIGHTBOX_TRANSPORT": "grpc,rest"} if is_binary else {}),
            **({"LIGHTBOX_KSERVE_GRPC_PORT": str(front)} if front else {}),
            **given,
        }
        environ = clean_environ() | {"TMPDIR": str(tmp), "TF_CPP_MIN_LOG_LEVEL": "2"}
        stack = harness_stack.Stack(settings, environ, folder, command=(*self.within, self.checkout / "serve.sh"))
        address = Address(stack.port, f"127.0.0.1:{front}" if front else "")
        return Running(stack, address, tmp).when_ready("/ping")


def model_server() -> str:
    """Return the model server that serve.sh starts: the real binary, if it is on PATH."""
    return REAL if shutil.which(REAL) else "embedded model server"
