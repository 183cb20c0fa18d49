"""Other servers, in the benchmark's own virtual environment."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from benchmark.servers.address import Address
from benchmark.servers.base import REPOSITORY, Running
from lightbox.harness.http_client import status_of
from lightbox.harness.ports import free_ports
from lightbox.harness.server import ServerProcess
from lightbox.harness.stack import clean_environ

VENV = REPOSITORY / ".venv-bench"
RIVALS = Path(__file__).resolve().parents[1] / "rivals"


@dataclass(frozen=True)
class Rival:
    """A script of rivals/ that serves HTTP (``health`` answers 200) or gRPC on the port it is given."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    health: str = "/"
    speaks_grpc: bool = False

    def counting(self) -> None:
        """There are no hops inside."""
        return

    def start(self, folder: Path) -> Running:
        """Start the server. One mark: ``ready``."""
        port = free_ports(2)
        shown = ["python", f"scripts/benchmark/rivals/{self.script}", *self.arguments]
        command = [str(VENV / "bin" / "python"), str(RIVALS / self.script), str(port), *self.arguments]
        environ = clean_environ() | {"PYTHONPATH": str(REPOSITORY / "scripts"), "PYTHONUNBUFFERED": "1"}
        server = ServerProcess(command, environ, folder)
        target = f"127.0.0.1:{port}" if self.speaks_grpc else ""
        running = Running(self.name, server, Address(port, target), command=" ".join(shown))
        try:
            running.started["ready"] = server.wait_until(lambda: self._answers(port))
        except BaseException:
            running.stop()
            raise
        return running

    def _answers(self, port: int) -> bool:
        if not self.speaks_grpc:
            return status_of(port, self.health) == 200
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
