"""The Open Inference Protocol: REST below /v2, and gRPC in a process behind nginx, on a port of its own."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import ChildSpec, NginxParts, Port, Probe
from lightbox.core.feature import Feature
from lightbox.nginx.listeners import address_of

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.operations import Description
    from lightbox.core.pipeline import Pipeline
    from lightbox.core.request import Middleware
    from lightbox.core.services import Services
    from lightbox.core.start import Start
    from lightbox.openapi.models import DescribedModel

PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
RENEW_SIGNAL = signal.SIGWINCH
"""Makes the gRPC front end its streams. The front ignores it until its handler is set."""


def live(ready: bool) -> dict[str, bool]:
    """Whether the server runs."""
    return {"live": True}


def server_ready(ready: bool) -> dict[str, bool]:
    """Whether requests can be served."""
    return {"live": True, "ready": ready}


PROBES: Mapping[str, Probe] = {"/v2/health/live": live, "/v2/health/ready": server_ready}


def nginx_part(port: int, calls: str, streams: str, host: str | None = None) -> NginxParts:
    """Return nginx's server of the gRPC port, which forwards unary calls and streams to two addresses."""
    listen = address_of(host, port) + (" ipv6only=off" if address_of(host, port).startswith("[::]") else "")
    probes = re.escape("/grpc.health.v1.Health/") + ".*"
    places = {"GRPC_LISTEN": listen, "GRPC_CALLS": calls, "GRPC_STREAMS": streams, "GRPC_PROBES": probes}
    return NginxParts.of(Path(__file__).parent, **places)


class OpenInferenceSettings(BaseModel):
    """The variable of the protocol."""

    model_config = PART

    kserve_grpc_port: int | None = setting("Open Inference Protocol", "LIGHTBOX_KSERVE_GRPC_PORT", ge=1, le=65535)
    """Port of the gRPC service of the [Open Inference Protocol](open-inference-protocol.md). Off if unset."""


class OpenInference(Feature):
    """Routes in every worker, and a worker for gRPC if its port is set."""

    name = "open_inference"
    modules = (f"{__name__}.rest.routes",)
    settings = OpenInferenceSettings
    paths = ("/v2",)
    manages = (r"/v2/repository(/|\Z)", r"/inference\.GRPCInferenceService/Repository")
    without_nginx = "gRPC port"
    response_headers = ("Inference-Header-Content-Length",)
    model_paths = ("/v2/models/([^/]+)",)
    predicts = ("/v2/models/[^/]+(/versions/[^/]+)?/infer",)

    @override
    def problems(self, settings: Settings) -> Mapping[str, str]:
        port = self._port(settings)
        if port is None or port != settings.port:
            return {}
        return {PORT: f"expected another port than nginx's, {settings.variable('port')}={port}"}

    @override
    def workers(self, settings: Settings) -> int:
        return 0 if self._port(settings) is None else 1

    @override
    def ports(self, settings: Settings) -> Iterable[Port]:
        port = self._port(settings)
        if port is not None:
            yield Port(PORT, port, "the Open Inference Protocol over gRPC")

    @override
    def probes(self, settings: Settings) -> Mapping[str, Probe]:
        return PROBES

    @override
    def children(self, start: Start) -> Iterable[ChildSpec]:
        port = self._port(start.settings)
        if port is not None:
            calls, streams = start.address("grpc_calls"), start.address("grpc_streams")
            yield ChildSpec(
                "grpc_front",
                "the gRPC front",
                f"{__name__}.grpc.front",
                [start.address("health"), calls, streams],
                [calls, streams],
                RENEW_SIGNAL,
                behind=True,
            )

    @override
    def needs_nginx(self, settings: Settings) -> Iterable[str]:
        return ["LIGHTBOX_KSERVE_GRPC_PORT"] if self._port(settings) is not None else []

    @override
    def nginx(self, start: Start) -> NginxParts:
        port, part = self._port(start.settings), NginxParts()
        if port is not None:
            part = nginx_part(port, start.address("grpc_calls"), start.address("grpc_streams"), start.settings.host)
        if start.settings.has_fixed_models:
            return part
        return replace(part, server=Path(__file__).with_name("loads.conf").read_text())

    @override
    def around(self, settings: Settings, run_dir: Path, pipeline: Pipeline) -> Iterable[Middleware]:
        from lightbox.features.open_inference.dataplane import DataPlane
        from lightbox.features.open_inference.rest.routes import JsonBodies, TritonBodies

        plane = DataPlane(pipeline, run_dir)
        yield from (TritonBodies(plane), JsonBodies(plane))

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.open_inference.dataplane import DataPlane
        from lightbox.features.open_inference.rest.routes import kserve_blueprint

        yield kserve_blueprint(DataPlane(services.pipeline, services.run_dir), services.settings.max_body_mb)

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import JSON, Description
        from lightbox.features.open_inference.schemas import schemas
        from lightbox.features.open_inference.tensors import TRITON_TYPE
        from lightbox.openapi.schemas import BINARY, Schema, ref

        # A Triton container's body gets a JSON response, unless an output is a blob; without bytes that is JSON alone.
        bodies = [ref(f"{model.name}.infer_response") for model in models]
        responses: dict[str, list[Schema]] = {JSON: bodies, TRITON_TYPE: [{}]}
        return Description(
            schemas=schemas(models),
            probes=PROBES,
            tag="Open Inference Protocol",
            requests={TRITON_TYPE: [BINARY], JSON: [ref(f"{model.name}.infer_request") for model in models]},
            responses=responses,
        )

    def _port(self, settings: Settings) -> int | None:
        return settings.of(OpenInferenceSettings).kserve_grpc_port
