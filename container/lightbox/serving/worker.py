"""A process that serves requests: its services, and the app that gunicorn runs."""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Flask

from lightbox.base.error_texts import hide
from lightbox.base.request_context import Requests
from lightbox.base.settings import Settings
from lightbox.base.settings_types import TransportName
from lightbox.base.telemetry.logs import LastResponse, Observer, RequestLog, log_like_others, worker_descriptor
from lightbox.base.telemetry.metrics import METRICS_FOLDER, VersionCounts, WorkerMetrics, count_requests
from lightbox.codecs import codec_classes
from lightbox.codecs.codec_options import CodecOptions
from lightbox.core.app import create_app
from lightbox.core.feature import Feature
from lightbox.core.pipeline import Pipeline, PipelineOptions, Times
from lightbox.core.places import Places
from lightbox.core.services import Services
from lightbox.features import FEATURES, enabled
from lightbox.model.catalogue import Catalogue
from lightbox.model.plan import AnsweringServers, ModelServerAddress, PlannedModels, ServingPlan, answering_versions
from lightbox.serving.settings_loading import load_settings
from lightbox.transports.balanced import BalancedTransport
from lightbox.transports.base import Transport
from lightbox.transports.grpc import GrpcTransport, RenewedChannel, open_channel
from lightbox.transports.local import LocalTransport
from lightbox.transports.model_management import ModelStates
from lightbox.transports.rest import RestTransport
from lightbox.transports.rest_connections import rest_connections
from lightbox.user_code.aws_context import AwsContexts
from lightbox.user_code.aws_response import rest_response
from lightbox.user_code.handlers import keep_texts
from lightbox.user_code.registry import UserCode

if TYPE_CHECKING:
    from lightbox.core.operations import Description
    from lightbox.openapi.models import DescribedModel

codec_classes()  # imported with this module: once for all workers, before the fork


def wsgi_app(plan_path: str) -> Flask:
    """Return the app for a plan that the supervisor wrote; settings come from the environment."""
    services = assemble(Path(plan_path))
    app = create_app(services, enabled(services.settings))
    gc.collect()
    gc.freeze()  # long-lived objects are excluded from further collections
    return app


def assemble(plan_path: Path, process: str = "gunicorn") -> Services:
    """Return the services for a plan that the supervisor wrote; settings come from the environment.

    ``process`` begins its log lines.
    """
    settings, plan, run_dir = load_settings(), ServingPlan.read(plan_path), plan_path.parent
    observers = make_observers(settings, plan, run_dir, process)  # before user code, which may have metrics of its own
    hide(
        _models_outside_model_dir(settings, plan)
        | {"LIGHTBOX_MODEL_DIR": settings.model_dir, "LIGHTBOX_CODE_DIR": settings.code_dir, "TMPDIR": run_dir}
    )
    if settings.handler_errors == "log":
        keep_texts()
    # As in AWS's container, records of a handler's logging are shown.
    # A no-op in gunicorn's workers, whose logging is configured already.
    logging.basicConfig(level=settings.gunicorn_loglevel.upper())
    user_code = UserCode()
    user_code.load(plan.models.values())
    catalogue = find_catalogue(settings, plan, run_dir, user_code)
    has_code = not catalogue.is_fixed or not user_code.is_empty()
    answered_after = settings.nginx_read_timeout if catalogue.is_fixed else settings.nginx_load_read_timeout
    requests = Requests(answered_after, count_requests(run_dir))
    transports = connect(plan, settings, run_dir if process == "gunicorn" else None)
    code = user_code if has_code else None
    pipeline = make_pipeline(settings, plan, transports, code, catalogue, requests.is_alone, run_dir)
    features = enabled(settings)
    return Services(
        settings,
        plan,
        run_dir,
        pipeline,
        observers,
        requests,
        [part for feature in features for part in feature.around(settings, run_dir, pipeline)],
        partial(operations, features, settings),
        refused_headers(features),
        [path for feature in features for path in feature.model_paths],
        Places(run_dir, plan.shared_requests(settings), settings.workers * settings.max_waiting),
    )


def _models_outside_model_dir(settings: Settings, plan: ServingPlan) -> dict[str, Path]:
    """Return by name where those models lie that are not in LIGHTBOX_MODEL_DIR: named ones, and unpacked archives."""
    places = {name: model.code_dirs[0].parent for name, model in plan.models.items() if model.code_dirs}
    return {name: place for name, place in places.items() if not place.is_relative_to(settings.model_dir)}


def operations(features: Sequence[Feature], settings: Settings, models: Sequence[DescribedModel]) -> list[Description]:
    """Return the features' additions to the OpenAPI document, the innermost before the pipeline first."""
    return [feature.operations(settings, models) for feature in reversed(features)]


def refused_headers(features: Sequence[Feature]) -> dict[str, str]:
    """Return the headers of the features that are off, and why each is refused."""
    return {name: why for feature in FEATURES if feature not in features for name, why in feature.headers.items()}


def make_observers(settings: Settings, plan: ServingPlan, run_dir: Path, process: str) -> list[Observer]:
    """Return the observers of every request in a worker, and configure its logging like the others'."""
    descriptor, as_json = worker_descriptor(), settings.log_format == "json"
    log_like_others(settings.gunicorn_loglevel, as_json, descriptor, process)
    observers: list[Observer] = [RequestLog(descriptor, as_json), LastResponse(run_dir), VersionCounts(run_dir)]
    if settings.metrics:
        observers.append(WorkerMetrics(run_dir / METRICS_FOLDER, plan.models))
    return observers + [observer for feature in enabled(settings) for observer in feature.observers()]


def find_catalogue(settings: Settings, plan: ServingPlan, run_dir: Path, user_code: UserCode) -> Catalogue:
    """Return the catalogue of models: a feature's, else the plan's own."""
    for feature in enabled(settings):
        if (found := feature.catalogue(settings, plan, run_dir, user_code)) is not None:
            return found
    return PlannedModels(plan, answering_versions(run_dir))


def make_pipeline(
    settings: Settings,
    plan: ServingPlan,
    transports: dict[str, Transport],
    user_code: UserCode | None = None,
    catalogue: Catalogue | None = None,
    alone: Callable[[], bool] = lambda: True,
    run_dir: Path | None = None,
) -> Pipeline:
    """Return the pipeline that the settings ask for."""
    # Not the transports' own channels: a handler may close them.
    channels = [open_channel(server.grpc_target) for server in plan.model_servers]
    contexts = AwsContexts(plan.model_servers, channels, settings.call_seconds, rest_response)
    own_channels = [RenewedChannel(server.grpc_target) for server in plan.model_servers]
    is_loading = ModelStates(own_channels, AnsweringServers(plan.model_servers)).is_loading
    call = settings.call_seconds if settings.wait_seconds else math.inf
    options = PipelineOptions(
        codec_options(settings, run_dir),
        Times(settings.deadline_seconds, settings.handler_seconds, call),
        worker_memory(settings),
        plan.shared_code_dirs,
    )
    return Pipeline(catalogue or PlannedModels(plan), transports, user_code, contexts, options, alone, is_loading)


def worker_memory(settings: Settings) -> int:
    """Return the bytes that the requests of one worker may hold; features may have a part, and workers of their own."""
    features = enabled(settings)
    rest = (settings.request_memory_mb << 20) - sum(feature.memory(settings) for feature in features)
    return rest // (settings.workers + sum(feature.workers(settings) for feature in features))


def codec_options(settings: Settings, run_dir: Path | None = None) -> CodecOptions:
    """Return how bodies are read and written; processes with the same ``run_dir`` share memory for images."""
    memory = settings.request_memory_mb << 20
    return replace(CodecOptions.of(settings), processes=settings.workers, image_memory=memory, run_dir=run_dir)


def connect(plan: ServingPlan, settings: Settings, run_dir: Path | None) -> dict[str, Transport]:
    """Return the transports by name, the default one first, each to all model servers of the plan.

    Without ``run_dir`` this process runs no models itself: ``inside`` is then another name of ``local``.
    """
    # With several servers, a call does not wait for an unreachable one.
    patience = {"reconnect_seconds": 0.0} if len(plan.model_servers) > 1 else {}

    def to(server: ModelServerAddress, name: TransportName) -> Transport:
        if name in (TransportName.LOCAL, TransportName.INSIDE) and server.local_socket is not None:
            return LocalTransport(server.local_socket, server.grpc_target, **patience)
        if name == TransportName.GRPC:
            return GrpcTransport(server.grpc_target, **patience)
        return RestTransport(rest_connections(server, settings.threads), **patience)

    several = {name.value: [to(server, name) for server in plan.model_servers] for name in plan.transports.names}
    answering = AnsweringServers(plan.model_servers)
    found: dict[str, Transport] = {name: BalancedTransport(all_, answering) for name, all_ in several.items()}
    if run_dir is not None and (local := found.get(TransportName.INSIDE)) is not None:
        from lightbox.transports.inside import (  # the engines, for which other workers have no use
            InsideTransport,
            opener,
        )

        versions = answering_versions(run_dir)
        found[TransportName.INSIDE] = InsideTransport(
            plan.models, versions.read, opener(settings, run_dir), run_dir, local
        )
    return found
