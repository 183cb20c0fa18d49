"""The Flask app: the edge around it, the routes, and Flask's own errors in our form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from flask import Flask, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from lightbox.base import errors
from lightbox.base.error_bodies import give_model_errors
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import context_maker
from lightbox.core.edge import Edge
from lightbox.core.feature import Feature
from lightbox.core.http import enter
from lightbox.core.predictions import Predictions, without_flask
from lightbox.core.probes import internal_blueprint, probes_blueprint
from lightbox.core.services import Services


def create_app(services: Services, features: Sequence[Feature]) -> Flask:
    """Return the app with the routes of the features."""
    settings, pipeline, names = services.settings, services.pipeline, services.model_names
    app = Flask("lightbox", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_mb << 20
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # an empty HTML page; our 405 has a JSON body
    app.url_map.merge_slashes = False  # a redirect would be HTML, to plain http and the caller's Host
    # Errors pass through Flask: the edge answers them.
    app.config["PROPAGATE_EXCEPTIONS"] = True

    @app.errorhandler(HTTPException)
    def translate(error: HTTPException) -> NoReturn:
        raise _from_http(error, settings) from error

    give_model_errors(path for feature in features for path in feature.model_errors)
    direct = dict.fromkeys((path for feature in features for path in feature.direct), Predictions(services).answer)
    app.wsgi_app = Edge(  # type: ignore[method-assign]
        without_flask(direct, app.wsgi_app, translate),
        services.shares(settings.threads, services.plan.most_requests(settings) // settings.workers),
        pipeline.allowed_seconds,
        services.observers,
        context_maker(services.observers),
        services.requests,
        None if names is None else names.of_request,
    )
    own = [internal_blueprint(pipeline)]
    if not settings.nginx:
        probes = {path: probe for feature in features for path, probe in feature.probes(settings).items()}
        own.append(probes_blueprint(pipeline, probes))
    for blueprint in [*own, *(part for feature in features for part in feature.routes(services))]:
        app.register_blueprint(blueprint)
    app.before_request(enter)

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
