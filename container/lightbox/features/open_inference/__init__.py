"""The Open Inference Protocol over gRPC: a process beside nginx, at a port of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.feature import ChildSpec, Feature
from lightbox.settings import Settings

if TYPE_CHECKING:
    from lightbox.processes.start import Start


class OpenInference(Feature):
    """A worker like gunicorn's that speaks gRPC to callers."""

    name = "open_inference"

    @override
    def enabled(self, settings: Settings) -> bool:
        return settings.kserve_grpc_port is not None

    @override
    def children(self, start: Start) -> Iterable[ChildSpec]:
        arguments = [str(start.plan_file), start.address("health")]
        address = f"127.0.0.1:{start.settings.kserve_grpc_port}"
        yield ChildSpec("grpc_front", "the gRPC front", "lightbox.grpc_worker", arguments, address)
