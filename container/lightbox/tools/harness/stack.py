"""A whole Lightbox on its own ports, started like a user's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lightbox.supervisor.starting.child_environment import with_sources
from lightbox.supervisor.starting.commands import PYTHON
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import PAUSE_SECONDS, START_SECONDS, ServerProcess

OWN_PORTS = 128
"""As many as the model servers of the largest machine take."""


class Stack(ServerProcess):
    """One running ``lightbox serve``; ``settings`` are the variables with its own ports, ``ports`` the first of these.

    ``ports`` are those of nginx and of the model server: gRPC, then REST.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        environ: Mapping[str, str],
        folder: Path | None = None,
        ends_with_parent: bool = False,
        command: Sequence[str | Path] = (*PYTHON, "lightbox"),
    ) -> None:
        """Start it with ``settings`` over ``environ``; its own ports where the settings name none."""
        self.port = free_ports(1 + OWN_PORTS)
        low = self.port + 1
        self.ports = (self.port, low, low + 1)
        self.settings = {
            "SAGEMAKER_BIND_TO_PORT": str(self.port),
            "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + OWN_PORTS - 1}",
        } | dict(settings)
        super().__init__([*command, "serve"], with_sources(environ) | self.settings, folder, ends_with_parent)

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.port}"

    def ping(self) -> int | None:
        """Return the status of /ping, None if it is not reachable."""
        return status_of(self.port, "/ping")

    def until_ready(self, seconds: float = START_SECONDS, pause: float = PAUSE_SECONDS) -> float:
        """Return the seconds from the start until /ping is 200, checked every ``pause`` seconds; see wait_until."""
        return self.wait_until(lambda: self.ping() == 200, seconds, pause)


def clean_environ() -> dict[str, str]:
    """Return this process's environment without the settings of its shell that would reach a server."""
    ours = ("LIGHTBOX_", "SAGEMAKER_", "GRPC_", "PREDICT_USING_GRPC", "AIP_", "K_SERVICE")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}
