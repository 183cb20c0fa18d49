"""The decisions of a start, made before the first process runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lightbox.base.machine.memory import available_bytes
from lightbox.base.machine.temporary_storage import free_bytes
from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.model.plan import ServingPlan


def room_for_bodies(settings: Settings) -> int:
    """Return the most bytes of large bodies together, from the memory settings or free memory, and TMPDIR's space."""
    room = free_bytes() // 2
    if "request_memory_mb" in settings.model_fields_set:
        room = min(room, settings.request_memory_mb << 20)
    elif (memory := available_bytes()) is not None:
        room = min(room, memory // 4)
    return max(2 * settings.max_body_mb << 20, room)


@dataclass(frozen=True)
class Start:
    """Settings, plan and addresses of one run."""

    settings: Settings
    plan: ServingPlan
    run_dir: RunDir
    features: Sequence[str] = ()
    """The names of the enabled features."""

    @property
    def plan_file(self) -> Path:
        """Path of the plan for workers."""
        return self.run_dir.path / "plan.json"

    def address(self, name: str) -> str:
        """Return the address of one of our processes: ``unix:/path``, or ``host:port`` for a sidecar alone."""
        if name == "sidecar" and not self.settings.nginx:
            return f"{self.settings.host or '127.0.0.1'}:{self.settings.port}"
        return f"unix:{self.run_dir.socket_path(name)}"

    @cached_property
    def room(self) -> int:
        """Limit of all large request bodies together, in bytes."""
        return room_for_bodies(self.settings)
