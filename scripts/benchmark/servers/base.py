"""What all servers of the benchmark have in common."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lightbox.harness.server import ServerProcess

REPOSITORY = Path(__file__).resolve().parents[3]


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
    """A server that answers; ``started`` holds seconds from its start to each mark, ``ready`` the last of them."""

    name: str
    server: ServerProcess
    address: Address
    started: dict[str, float] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    run_dir: Path | None = None
    temporary: Path | None = None

    @property
    def pid(self) -> int:
        """The process that was started, above all others of the server."""
        return self.server.process.pid

    def stop(self) -> None:
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
        """Start the server with its files in a folder of its own, and return when it answers."""
        ...
