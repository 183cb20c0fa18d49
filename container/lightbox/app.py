"""Wires the services together: the only place that knows them all."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from flask import Flask, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from lightbox import errors
from lightbox.error_texts import hide
from lightbox.multi_model.loader import ModelLoader, TargetModels
from lightbox.multi_model.state import LoadedModels
from lightbox.pipeline import Pipeline
from lightbox.plan import AnsweringVersions, ModelServerAddress, PlannedModel, PlannedModels, ServingPlan
from lightbox.processes.code_trial import try_code
from lightbox.protocols.edge import Count, Edge, uncounted
from lightbox.protocols.http import enter
from lightbox.protocols.multi_model import multi_model_blueprint
from lightbox.protocols.open_inference.repository import Repository
from lightbox.protocols.open_inference.rest import kserve_blueprint
from lightbox.protocols.sagemaker import (
    batch_transform_blueprint,
    internal_blueprint,
    invoke,
    response_stream_blueprint,
    sagemaker_blueprint,
)
from lightbox.protocols.tfs_rest import TfsRest, tfs_blueprint
from lightbox.request_context import MakeContext
from lightbox.sessions import SessionStore
from lightbox.settings import Settings
from lightbox.settings_base import TransportName
from lightbox.settings_loading import load_settings
from lightbox.telemetry.logs import LastResponse, Observer, RequestLog, log_like_others, worker_descriptor
from lightbox.telemetry.metrics import METRICS_FOLDER, WorkerMetrics
from lightbox.telemetry.saturation import RequestCount
from lightbox.telemetry.tracing import Tracing
from lightbox.transports.base import BalancedTransport, Transport
from lightbox.transports.forward import RestForward
from lightbox.transports.grpc import GrpcTransport, open_channel
from lightbox.transports.local import LocalTransport
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.rest import RestTransport
from lightbox.user_code.paths import find_inference
from lightbox.user_code.registry import UserCode


@dataclass(frozen=True)
class Services:
    """What serves requests in one process, whatever its protocol; some are there in multi-model mode only."""

    settings: Settings
    observers: Sequence[Observer]
    pipeline: Pipeline
    targets: TargetModels | None = None
    loader: ModelLoader | None = None
    state: LoadedModels | None = None
    run_dir: Path | None = None
    model_servers: Sequence[ModelServerAddress] = ()
    count: Count = uncounted

    @property
    def repository(self) -> Repository:
        """The models as the Open Inference Protocol tells of them."""
        return Repository(self.pipeline, self.targets, self.loader, self.run_dir)


def wsgi_app(plan_path: str) -> Flask:
    """Return the app for a plan that the supervisor wrote; settings come from the environment."""
    services = assemble(Path(plan_path))
    app = create_app(
        services.settings,
        services.pipeline,
        services.targets,
        services.repository,
        services.observers,
        services.count,
    )
    if services.loader is not None and services.state is not None:
        invoke_model = partial(invoke, services.pipeline, services.settings.max_body_mb)
        app.register_blueprint(multi_model_blueprint(services.loader, services.state, invoke_model))
    if services.settings.tfs_api:
        app.register_blueprint(tfs_blueprint(tfs_rest(services)))
    gc.collect()
    gc.freeze()  # what lives as long as the worker is not looked through again at every collection
    return app


def tfs_rest(services: Services) -> TfsRest:
    """Return what answers TensorFlow Serving's REST API for callers."""
    settings = services.settings
    forward = RestForward([server.rest_url for server in services.model_servers], settings.threads)
    return TfsRest(services.pipeline, forward, settings.deadline_seconds, settings.max_body_mb)


def make_observers(settings: Settings, plan: ServingPlan, run_dir: Path, process: str) -> list[Observer]:
    """Return who hears of every request in a worker, and let its logging look like the others'."""
    descriptor, as_json = worker_descriptor(), settings.log_format == "json"
    log_like_others(settings.gunicorn_loglevel, as_json, descriptor, process)
    observers: list[Observer] = [RequestLog(descriptor, as_json), LastResponse(run_dir)]
    if settings.metrics:
        observers.append(WorkerMetrics(run_dir / METRICS_FOLDER, plan.models))
    if settings.otlp_endpoint is not None:
        observers.append(Tracing())
    return observers


def context_maker(observers: Sequence[Observer]) -> MakeContext | None:
    """Return what makes the context of a request whose stages are spans; None where requests are not traced."""
    return next((observer.context for observer in observers if isinstance(observer, Tracing)), None)


def assemble(plan_path: Path, process: str = "gunicorn") -> Services:
    """Return the services for a plan that the supervisor wrote; settings come from the environment.

    ``process`` is what its lines of the log begin with.
    """
    settings, plan = load_settings(), ServingPlan.read(plan_path)
    observers = make_observers(
        settings, plan, plan_path.parent, process
    )  # before user code, which may have metrics of its own
    hide(
        {
            "LIGHTBOX_MODEL_DIR": settings.model_dir,
            "LIGHTBOX_CODE_DIR": settings.code_dir,
            "TMPDIR": plan_path.parent,
        }
    )
    # As in AWS's container, what a handler logs with the logging module is seen.
    # A no-op in gunicorn's workers, whose logging stands by now.
    logging.basicConfig(level=settings.gunicorn_loglevel.upper())
    count = RequestCount(plan_path.parent).add
    user_code = UserCode()
    user_code.load(plan.models.values())
    # Not the transports' own: a handler may close them.
    channels = [open_channel(server.grpc_target) for server in plan.model_servers]
    transports = connect(plan, settings)
    if not settings.multi_model:
        fixed = PlannedModels(plan, AnsweringVersions(plan_path.parent))
        pipeline = Pipeline(settings, plan, transports, user_code, channels, fixed)
        pipeline.sessions = SessionStore.of(settings, plan_path.parent)
        return Services(
            settings, observers, pipeline, run_dir=plan_path.parent, model_servers=plan.model_servers, count=count
        )
    state = LoadedModels(plan_path.parent)
    pipeline = Pipeline(settings, plan, transports, user_code, channels, catalogue=state)
    pipeline.sessions = SessionStore.of(settings, plan_path.parent)
    loader = model_loader(settings, plan, plan_path.parent, state, user_code)
    targets = TargetModels(loader, state)
    return Services(settings, observers, pipeline, targets, loader, state, plan_path.parent, plan.model_servers, count)


def connect(plan: ServingPlan, settings: Settings) -> dict[str, Transport]:
    """Return the transports by name, the default one first, each to all model servers of the plan."""
    # With others to turn to, a server that is away is not waited for.
    patience = {"reconnect_seconds": 0.0} if len(plan.model_servers) > 1 else {}

    def to(server: ModelServerAddress, name: TransportName) -> Transport:
        if name == TransportName.LOCAL and server.local_socket is not None:
            return LocalTransport(server.local_socket, server.grpc_target, **patience)
        if name == TransportName.GRPC:
            return GrpcTransport(server.grpc_target, **patience)
        return RestTransport(server.rest_url, connections=settings.threads, **patience)

    several = {name.value: [to(server, name) for server in plan.model_servers] for name in plan.wires.names}
    return {name: all_[0] if len(all_) == 1 else BalancedTransport(all_) for name, all_ in several.items()}


def model_loader(
    settings: Settings, plan: ServingPlan, run_dir: Path, state: LoadedModels, user_code: UserCode
) -> ModelLoader:
    """Return what loads and unloads models by requests, in multi-model mode."""

    def check_code(model: PlannedModel) -> None:
        file = find_inference(model.code_dirs)
        if file is not None and not user_code.uses(file):
            try_code(model, run_dir)

    management = ModelManagement([open_channel(server.grpc_target) for server in plan.model_servers], run_dir)
    return ModelLoader(settings, run_dir, state, management, check_code, plan.shared_code_dirs)


def create_app(
    settings: Settings,
    pipeline: Pipeline,
    targets: TargetModels | None = None,
    repository: Repository | None = None,
    observers: Sequence[Observer] = (),
    count: Count = uncounted,
) -> Flask:
    """Return the Flask app around a pipeline; ``observers`` hear of every request, ``count`` is the edge's."""
    app = Flask("lightbox", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_mb << 20
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # it is an empty page of HTML; 405 tells as much, in our form
    # What a view raises is the edge's to answer.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.wsgi_app = Edge(  # type: ignore[method-assign]
        app.wsgi_app,
        settings.threads,
        pipeline.allowed_seconds,
        observers,
        context_maker(observers),
        settings.nginx_load_read_timeout if settings.multi_model else settings.nginx_read_timeout,
        count,
    )
    app.register_blueprint(internal_blueprint(pipeline))
    app.register_blueprint(sagemaker_blueprint(pipeline, settings.max_body_mb, targets))
    app.register_blueprint(response_stream_blueprint(pipeline, settings.max_body_mb, targets))
    app.register_blueprint(batch_transform_blueprint(settings))
    app.register_blueprint(kserve_blueprint(pipeline, repository or Repository(pipeline), settings.max_body_mb))

    if settings.openapi:
        from lightbox.protocols.openapi import openapi_blueprint

        app.register_blueprint(openapi_blueprint(settings, pipeline))

    app.before_request(enter)

    @app.errorhandler(HTTPException)
    def translate(error: HTTPException) -> NoReturn:
        raise _from_http(error, settings) from error

    return app


def _from_http(error: HTTPException, settings: Settings) -> errors.LightboxError:
    if isinstance(error, NotFound):
        return errors.RouteNotFound(f"there is no route {request.method} {request.path!r}")
    if isinstance(error, MethodNotAllowed):
        allowed = sorted(set(error.valid_methods or ()))
        names = ", ".join(method for method in allowed if method != "HEAD")
        return errors.MethodNotAllowed(f"{request.path!r} takes {names}, got {request.method}", allowed)
    if isinstance(error, RequestEntityTooLarge):
        return errors.TooLarge(f"the request body is larger than LIGHTBOX_MAX_BODY_MB={settings.max_body_mb} MiB")
    return errors.BadRequest(f"the request cannot be read: {error.description}", status=_client_status(error))


def _client_status(error: HTTPException) -> int:
    return error.code if error.code and 400 <= error.code <= 499 else 400
