"""The interface of features: everything that a feature may add to Lightbox.

A feature is a folder of ``lightbox.features``, and a subclass of ``Feature`` in it. The rest of Lightbox calls the
members of that class, and knows no feature by name, nor its paths and headers. A feature that acts on the paths of
others gets these features when it is made. Features import their dependencies in methods: so a disabled feature costs
a process nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from lightbox.base.settings import Settings
from lightbox.base.telemetry.metrics import Metric
from lightbox.core.additions import Authenticator, ChildSpec, Measured, NginxParts, Port, Probe, ServedModels
from lightbox.core.edge import Work

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.base.telemetry.logs import Observer
    from lightbox.core.operations import Description
    from lightbox.core.pipeline import Pipeline
    from lightbox.core.request import Middleware
    from lightbox.core.services import Services
    from lightbox.core.start import Start
    from lightbox.model.catalogue import Catalogue
    from lightbox.model.plan import ServingPlan
    from lightbox.openapi.models import DescribedModel
    from lightbox.user_code.registry import UserCode


@dataclass(frozen=True)
class GrpcServices:
    """Services of the gRPC port: the functions of their methods, and their names in the health service."""

    works: Mapping[str, Mapping[str, Work]] = field(default_factory=dict)
    health: Sequence[str] = ()


@dataclass(frozen=True)
class Front:
    """The first argument of the ``main`` of a process beside gunicorn, before those of its ``ChildSpec``.

    ``features`` are the enabled ones. ``assemble`` makes the services; its argument begins the log lines.
    """

    settings: Settings
    features: Sequence[Feature]
    assemble: Callable[[str], Services]


class NoSettings(BaseModel):
    """Of a feature that has none."""


OWN_PATHS = ("/internal", "/metrics", "/nginx-[^/]*", "/ping")
"""As ``paths`` of a feature: those of Lightbox without features."""


class Feature:
    """The default members add nothing, and enable the feature; subclasses override them."""

    name: ClassVar[str]
    settings: ClassVar[type[BaseModel]] = NoSettings
    """Its variables. A docstring below a field is its text on the settings page."""
    metrics: ClassVar[Sequence[Metric]] = ()
    shown_at: ClassVar[str | None] = None
    """Path of a page for people, logged when Lightbox is ready."""
    why_rest: ClassVar[str | None] = None
    """The reason why it needs the model server's REST API, for the log; None if it does not."""

    paths: ClassVar[Sequence[str]] = ()
    """Patterns of the beginnings of its paths, which no route that a setting names may have."""
    direct: ClassVar[Sequence[str]] = ()
    """Its paths that predict with any body. A worker answers a POST there without Flask; ``routes`` has them too."""
    predicts: ClassVar[Sequence[str]] = ()
    """Patterns of its paths that predict with a body of its own."""
    model_paths: ClassVar[Sequence[str]] = ()
    """Patterns of the beginnings of its paths that name a model, as their only group."""
    manages: ClassVar[Sequence[str]] = ()
    """Patterns of the beginnings of its paths, also of gRPC, that load, unload and list models."""
    response_headers: ClassVar[Sequence[str]] = ()
    """Headers of its responses that pages of other sites may read."""
    headers: ClassVar[Mapping[str, str]] = {}
    """Request headers that need the feature, each with the error text while it is disabled."""
    model_errors: ClassVar[Sequence[str]] = ()
    """The beginnings of its paths on which errors have the form of SageMaker's ModelError."""
    without_nginx: ClassVar[str] = ""
    """Its part that is missing without nginx, for the log."""
    defaults: ClassVar[Mapping[str, str]] = {}
    """Variables with another default while it is enabled."""
    modules: ClassVar[Sequence[str]] = ()
    """Modules of its part of a worker: they are imported before workers are forked, which then share the memory."""
    describes: ClassVar[bool] = False
    """Whether it describes the API to tools: then the gRPC port has reflection too."""
    loads_models: ClassVar[str | None] = None
    """The request that loads models, in place of those that a start finds; None if it loads none."""

    def enabled(self, settings: Settings) -> bool:
        """Return whether its own settings turn it on: by default the one that has its name, if there is one."""
        return bool(getattr(settings.of(self.settings), self.name, True))

    def problems(self, settings: Settings) -> Mapping[str, str]:
        """Return the expected value of each variable that contradicts others, while it is enabled."""
        return {}

    def check(self, settings: Settings) -> None:
        """Raise StartError if it is on and cannot be had."""

    def memory(self, settings: Settings) -> int:
        """Return the bytes of LIGHTBOX_REQUEST_MEMORY_MB that it takes from requests, while it is enabled."""
        return 0

    def workers(self, settings: Settings) -> int:
        """Return how many of its processes answer requests, as gunicorn's workers do."""
        return 0

    def ports(self, settings: Settings) -> Iterable[Port]:
        """Return the ports that it opens to callers."""
        return ()

    def served(self, run_dir: Path) -> ServedModels | None:
        """Return the models that it has loaded, for a model server that is about to start; None for the plan's."""
        return None

    def prepare(self, start: Start) -> None:
        """Prepare the feature before the first process starts."""

    def children(self, start: Start) -> Iterable[ChildSpec]:
        """Return the processes that it needs."""
        return ()

    def nginx(self, start: Start) -> NginxParts:
        """Return its part of nginx.conf, most often that of the files in its folder."""
        return NginxParts()

    def needs_nginx(self, settings: Settings) -> Iterable[str]:
        """Return its variables that are set and mean nothing without nginx."""
        return ()

    def probes(self, settings: Settings) -> Mapping[str, Probe]:
        """Return the probes that the supervisor answers by itself, by path: at once, and without a key."""
        return {}

    def authenticator(self, settings: Settings) -> Authenticator | None:
        """Return the supervisor's check of requests before a body is read; None to admit all."""
        return None

    def callers(self, settings: Settings) -> str | None:
        """Return a description of the admitted callers; None without a check. Raises StartError."""
        return None

    def measure(self, run_dir: Path) -> Mapping[Metric, Measured]:
        """Return the values of ``metrics``; called whether it is enabled or not."""
        return {}

    def observers(self) -> Iterable[Observer]:
        """Return the observers of every request in a worker."""
        return ()

    def catalogue(self, settings: Settings, plan: ServingPlan, run_dir: Path, user_code: UserCode) -> Catalogue | None:
        """Return the catalogue of models in a worker, in place of the plan; None for the plan."""
        return None

    def around(self, settings: Settings, run_dir: Path, pipeline: Pipeline) -> Iterable[Middleware]:
        """Return the middleware before the pipeline on routes that predict with a body."""
        return ()

    def tasks(self, start: Start) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the supervisor's tasks beside its children, until it stops."""
        return ()

    def routes(self, services: Services) -> Iterable[Blueprint]:
        """Return its routes in a worker."""
        return ()

    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        """Return its routes in OpenAPI, and its additions to those that predict with a body; ``models`` answer now."""
        from lightbox.core.operations import Description

        return Description()

    def grpc(self, services: Services) -> GrpcServices:
        """Return its services at the gRPC port, if there is one."""
        return GrpcServices()
