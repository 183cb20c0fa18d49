"""Wires the services together: the only place that knows them all."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from flask import Flask, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from lightbox import errors
from lightbox.error_texts import hide
from lightbox.features import enabled
from lightbox.multi_model.loader import ModelLoader, TargetModels
from lightbox.multi_model.state import LoadedModels
from lightbox.pipeline import Pipeline
from lightbox.plan import AnsweringVersions, ModelServerAddress, PlannedModel, PlannedModels, ServingPlan
from lightbox.processes.code_trial import try_code
from lightbox.protocols.edge import Edge
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
from lightbox.request_context import MakeContext
from lightbox.services import Services
from lightbox.sessions import SessionStore
from lightbox.settings import Settings
from lightbox.settings_base import TransportName
from lightbox.settings_loading import load_settings
from lightbox.telemetry.logs import (
    LastResponse,
    MakesContexts,
    Observer,
    RequestLog,
    log_like_others,
    worker_descriptor,
)
from lightbox.telemetry.metrics import METRICS_FOLDER, WorkerMetrics
from lightbox.telemetry.saturation import RequestCount
from lightbox.transports.base import BalancedTransport, Transport
from lightbox.transports.grpc import GrpcTransport, open_channel
from lightbox.transports.local import LocalTransport
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.rest import RestTransport
from lightbox.user_code.paths import find_inference
from lightbox.user_code.registry import UserCode


def wsgi_app(plan_path: str) -> Flask:
    """Return the app for a plan that the supervisor wrote; settings come from the environment."""
    services = assemble(Path(plan_path))
    app = create_app(services)
    if services.loader is not None and services.state is not None:
        invoke_model = partial(invoke, services.pipeline, services.settings.max_body_mb)
        app.register_blueprint(multi_model_blueprint(services.loader, services.state, invoke_model))
    gc.collect()
    gc.freeze()  # what lives as long as the worker is not looked through again at every collection
    return app


def make_observers(settings: Settings, plan: ServingPlan, run_dir: Path, process: str) -> list[Observer]:
    """Return who hears of every request in a worker, and let its logging look like the others'."""
    descriptor, as_json = worker_descriptor(), settings.log_format == "json"
    log_like_others(settings.gunicorn_loglevel, as_json, descriptor, process)
    observers: list[Observer] = [RequestLog(descriptor, as_json), LastResponse(run_dir)]
    if settings.metrics:
        observers.append(WorkerMetrics(run_dir / METRICS_FOLDER, plan.models))
    return observers + [observer for feature in enabled(settings) for observer in feature.observers()]


def context_maker(observers: Sequence[Observer]) -> MakeContext | None:
    """Return what makes the contexts of requests: an observer's way, such as that of traces, or None."""
    return next((observer.context for observer in observers if isinstance(observer, MakesContexts)), None)


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
            settings,
            pipeline,
            observers,
            enabled(settings),
            run_dir=plan_path.parent,
            model_servers=plan.model_servers,
            count=count,
        )
    state = LoadedModels(plan_path.parent)
    pipeline = Pipeline(settings, plan, transports, user_code, channels, catalogue=state)
    pipeline.sessions = SessionStore.of(settings, plan_path.parent)
    loader = model_loader(settings, plan, plan_path.parent, state, user_code)
    targets = TargetModels(loader, state)
    return Services(
        settings,
        pipeline,
        observers,
        enabled(settings),
        targets,
        loader,
        state,
        plan_path.parent,
        plan.model_servers,
        count,
    )


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


def repository(services: Services) -> Repository:
    """Return the models as the Open Inference Protocol tells of them."""
    return Repository(services.pipeline, services.targets, services.loader, services.run_dir)


def create_app(services: Services) -> Flask:
    """Return the Flask app around a pipeline."""
    settings, pipeline, targets = services.settings, services.pipeline, services.targets
    app = Flask("lightbox", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_mb << 20
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # it is an empty page of HTML; 405 tells as much, in our form
    # What a view raises is the edge's to answer.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.wsgi_app = Edge(  # type: ignore[method-assign]
        app.wsgi_app,
        settings.threads,
        pipeline.allowed_seconds,
        services.observers,
        context_maker(services.observers),
        settings.nginx_load_read_timeout if settings.multi_model else settings.nginx_read_timeout,
        services.count,
    )
    app.register_blueprint(internal_blueprint(pipeline))
    app.register_blueprint(sagemaker_blueprint(pipeline, settings.max_body_mb, targets))
    app.register_blueprint(response_stream_blueprint(pipeline, settings.max_body_mb, targets))
    app.register_blueprint(batch_transform_blueprint(settings))
    app.register_blueprint(kserve_blueprint(pipeline, repository(services), settings.max_body_mb))
    for feature in services.features:
        for blueprint in feature.routes(services):
            app.register_blueprint(blueprint)
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
