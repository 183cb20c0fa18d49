"""The Open Inference Protocol over gRPC: a process beside nginx, at a port of its own."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from lightbox.feature import Feature
from lightbox.processes.commands import PYTHON
from lightbox.processes.fronts import ChildSpec
from lightbox.processes.start import Start
from lightbox.settings import Settings


class OpenInference(Feature):
    """A worker like gunicorn's that speaks gRPC to callers."""

    @override
    def enabled(self, settings: Settings) -> bool:
        return settings.kserve_grpc_port is not None

    @override
    def children(self, start: Start) -> Iterable[ChildSpec]:
        command = [*PYTHON, "lightbox.grpc_worker", str(start.plan_file), start.address("health")]
        yield ChildSpec("grpc_front", "the gRPC front", command, f"127.0.0.1:{start.settings.kserve_grpc_port}")
