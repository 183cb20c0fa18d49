"""TensorFlow Serving's own APIs for callers: REST below /v1/, and gRPC in the gRPC front, behind nginx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import Probe
from lightbox.core.feature import Feature, GrpcServices

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services


def alive(ready: bool) -> dict[str, str]:
    """Whether the server runs, for clients of KServe's v1 protocol."""
    return {"status": "alive"}


class TfsApiSettings(BaseModel):
    """The variable of TensorFlow Serving's APIs."""

    model_config = PART

    tfs_api: bool = setting("TensorFlow Serving's APIs", "LIGHTBOX_TFS_API", default=False)
    """Serve [TensorFlow Serving's APIs](tensorflow-serving-api.md): REST at `/v1/`, gRPC at
    `LIGHTBOX_KSERVE_GRPC_PORT`. Opens the REST port of tensorflow_model_server inside the container."""


class TfsApi(Feature):
    """Forwards requests unchanged to the model server.

    Its ``paths`` are not listed: below /v1/ a route may have another name, as the bodies have the same form there.
    """

    name = "tfs_api"
    modules = (f"{__name__}.forward", f"{__name__}.routes")
    model_paths = ("/v1/models/([^/:]+)",)
    settings = TfsApiSettings
    why_rest = "LIGHTBOX_TFS_API passes requests on to it"

    @override
    def probes(self, settings: Settings) -> Mapping[str, Probe]:
        return {"/": alive} if self.enabled(settings) else {}

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.tfs_api.forward import RestForward
        from lightbox.features.tfs_api.routes import TfsRest, tfs_blueprint

        settings = services.settings
        forward = RestForward(services.plan.model_servers, settings.threads)
        yield tfs_blueprint(TfsRest(services.pipeline, forward, settings.deadline_seconds, settings.max_body_mb))

    @override
    def grpc(self, services: Services) -> GrpcServices:
        from lightbox.features.tfs_api.forwarded_services import HEALTH, METHODS, TfsGrpc
        from lightbox.model.plan import AnsweringServers
        from lightbox.transports.grpc import RenewedChannel

        channels = [RenewedChannel(address.grpc_target) for address in services.plan.model_servers]
        answering = AnsweringServers(services.plan.model_servers)
        tfs = TfsGrpc(services.pipeline, channels, answering, services.settings.deadline_seconds)
        works = {
            service: {method: tfs.work(f"/{service}/{method}") for method in methods}
            for service, methods in METHODS.items()
        }
        return GrpcServices(works, HEALTH)
