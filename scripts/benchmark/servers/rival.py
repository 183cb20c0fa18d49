"""Other servers, in the benchmark's own virtual environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmark.servers.base import REPOSITORY, Address, Running
from lightbox.harness.http_client import status_of
from lightbox.harness.ports import free_ports
from lightbox.harness.server import ServerProcess
from lightbox.harness.stack import clean_environ

VENV = REPOSITORY / ".venv-bench"
RIVALS = Path(__file__).resolve().parents[1] / "rivals"


@dataclass(frozen=True)
class Rival:
    """A script of rivals/ that serves HTTP on the port it is given; ``health`` answers 200."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    health: str = "/"

    def start(self, folder: Path) -> Running:
        """Start the server. One mark: ``ready``."""
        port = free_ports(2)
        shown = ["python", f"scripts/benchmark/rivals/{self.script}", *self.arguments]
        command = [str(VENV / "bin" / "python"), str(RIVALS / self.script), str(port), *self.arguments]
        environ = clean_environ() | {"PYTHONPATH": str(REPOSITORY / "scripts"), "PYTHONUNBUFFERED": "1"}
        server = ServerProcess(command, environ, folder)
        running = Running(self.name, server, Address(port), command=" ".join(shown))
        try:
            running.started["ready"] = server.wait_until(lambda: status_of(port, self.health) == 200)
        except BaseException:
            running.stop()
            raise
        return running
