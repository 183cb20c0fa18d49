"""The route: paths come from Flask's table of routes, codes from the table of errors, schemas from signatures."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, g, request

from lightbox.core.edge import EXCHANGE, Exchange
from lightbox.core.http import json_body
from lightbox.core.services import Services
from lightbox.features.openapi.document import document
from lightbox.features.openapi.models import described_models
from lightbox.openapi.operations import Served
from lightbox.sagemaker import operations

_METHODS_WITHOUT_ROUTE = frozenset({"HEAD", "OPTIONS"})


def openapi_blueprint(services: Services) -> Blueprint:
    """Return the route. No observer hears of its requests: they are nobody's predictions."""
    blueprint = Blueprint("openapi", __name__)

    @blueprint.get("/openapi.json")
    def openapi() -> Response:
        exchange: Exchange = request.environ[EXCHANGE]
        exchange.is_observed = False
        pipeline = services.pipeline
        models, codecs = described_models(pipeline, g.context), pipeline.codecs
        descriptions = [operations.describe(models), *services.operations(models)]
        served = Served(services.settings, models, codecs.readers, codecs.writers, descriptions)
        return Response(json_body(document(served, public_rules())), mimetype="application/json")

    return blueprint


def public_rules() -> list[tuple[str, str]]:
    """Return method and path of the current app's routes, but for those of the supervisor and what refuses the rest."""
    rules = (rule for rule in current_app.url_map.iter_rules() if not rule.rule.startswith("/internal/"))
    rules = (rule for rule in rules if "<path:" not in rule.rule)
    return [(method, rule.rule) for rule in rules for method in (rule.methods or set()) - _METHODS_WITHOUT_ROUTE]
