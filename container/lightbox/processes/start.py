"""What is decided when the first process is about to be started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lightbox.core.settings import Settings
from lightbox.model.plan import ServingPlan
from lightbox.processes.body_memory import room_for_bodies
from lightbox.processes.run_dir import RunDir


@dataclass(frozen=True)
class Start:
    """Settings, plan and addresses of one run."""

    settings: Settings
    plan: ServingPlan
    run_dir: RunDir
    features: Sequence[str] = ()
    """The names of those that the settings turn on."""

    @property
    def plan_file(self) -> Path:
        """Where workers find the plan."""
        return self.run_dir.path / "plan.json"

    def address(self, name: str) -> str:
        """Return where a process of ours listens: ``unix:/path``, or loopback's ``host:port`` of the sidecar alone."""
        if name == "sidecar" and not self.settings.nginx:
            return f"127.0.0.1:{self.settings.port}"
        return f"unix:{self.run_dir.socket_path(name)}"

    @cached_property
    def room(self) -> int:
        """Bytes that large request bodies may hold together."""
        return room_for_bodies(self.settings)
