"""What is measured: Lightbox and other servers, started for it and stopped for sure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lightbox.harness import stack as harness_stack
from lightbox.harness.http_client import status_of
from lightbox.harness.ports import free_ports
from lightbox.harness.server import ServerProcess
from lightbox.harness.stack import clean_environ

REPOSITORY = Path(__file__).resolve().parents[2]
VENV = REPOSITORY / ".venv-bench"
"""The virtual environment of the other servers."""
RIVALS = Path(__file__).with_name("rivals")


@dataclass(frozen=True)
class Address:
    """HTTP on loopback; ``front`` is where a stack speaks the Open Inference Protocol over gRPC, "" where nowhere."""

    port: int
    front: str = ""
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Base address of the HTTP side."""
        return f"http://{self.host}:{self.port}"


@dataclass
class Running:
    """A server that was started by a command, over variables; ``ready`` are the seconds until it answered."""

    server: ServerProcess
    address: Address
    command: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    temporary: Path | None = None
    ready: float = 0.0

    @property
    def pid(self) -> int:
        """The process that was started, above all others of the server."""
        return self.server.process.pid

    def when_ready(self, health: str) -> Running:
        """Return it when a path answers 200; raise ServerFailed where that never comes."""
        try:
            self.ready = self.server.wait_until(lambda: status_of(self.address.port, health) == 200)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ask the server to stop, then make sure that nothing of it stays."""
        self.server.close()
        if self.temporary:
            shutil.rmtree(self.temporary, ignore_errors=True)


class Server(Protocol):
    """What can be started; comparable, so that scenarios that name the same server share it."""

    @property
    def name(self) -> str:
        """A few words for the pages."""
        ...

    def start(self, folder: Path) -> Running:
        """Start the server with its files in a folder of its own, and return when it answers. Raises ServerFailed."""
        ...


@dataclass(frozen=True)
class Rival:
    """A script of rivals/ that serves HTTP on the port it is given; ``health`` answers 200."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    health: str = "/"

    def start(self, folder: Path) -> Running:
        """Start the server in the virtual environment of the others."""
        port = free_ports(2)
        shown = ["python", f"scripts/benchmark/rivals/{self.script}", *self.arguments]
        command = [str(VENV / "bin" / "python"), str(RIVALS / self.script), str(port), *self.arguments]
        environ = clean_environ() | {"PYTHONPATH": str(REPOSITORY / "scripts"), "PYTHONUNBUFFERED": "1"}
        server = ServerProcess(command, environ, folder)
        return Running(server, Address(port), " ".join(shown)).when_ready(self.health)


@dataclass(frozen=True)
class Stack:
    """nginx, gunicorn and a model server over a folder of models; ``settings`` are environment variables.

    With ``front`` it speaks the Open Inference Protocol over gRPC too.
    """

    name: str
    models: Path
    settings: tuple[tuple[str, str], ...] = ()
    front: bool = False

    def start(self, folder: Path) -> Running:
        """Start the stack as a user does: ``serve.sh serve``."""
        # The path of a unix socket is short: the run directory cannot lie deep in a working copy.
        tmp = Path(tempfile.mkdtemp(prefix="lb-bench-"))
        front = free_ports() if self.front else None
        # A request that measures a wire names it. The embedded server has them all, the binary gRPC alone; the sample's
        # handler has ports, and a variable of its own.
        given = dict(self.settings)
        is_binary = "LIGHTBOX_ENGINE" not in given and model_server_kind() != "embedded"
        settings = {
            "LIGHTBOX_MODEL_DIR": str(self.models),
            **({"LIGHTBOX_TRANSPORT": "grpc,rest"} if is_binary and "PREDICT_USING_GRPC" not in given else {}),
            **({"LIGHTBOX_KSERVE_GRPC_PORT": str(front)} if front else {}),
            **given,
        }
        environ = clean_environ() | {"TMPDIR": str(tmp), "TF_CPP_MIN_LOG_LEVEL": "2"}
        stack = harness_stack.Stack(settings, environ, folder)
        address = Address(stack.port, f"127.0.0.1:{front}" if front else "")
        return Running(stack, address, "./serve.sh serve", stack.settings, tmp).when_ready("/ping")


def model_server_kind() -> str:
    """Return ``tensorflow_model_server`` when serve.sh finds the real binary, else ``embedded``."""
    name = "tensorflow_model_server"
    return name if shutil.which(name) else "embedded"
