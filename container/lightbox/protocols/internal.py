"""What the supervisor asks a worker. nginx lets nobody else come here."""

from __future__ import annotations

from flask import Blueprint, Response, g

from lightbox.pipeline import Pipeline


def internal_blueprint(pipeline: Pipeline) -> Blueprint:
    """Return the route ``/internal/probe``: 200 once the default model has predicted."""
    blueprint = Blueprint("internal", __name__)

    @blueprint.get("/internal/probe")
    def probe() -> Response:
        pipeline.probe(g.clock)
        return Response(b"", mimetype="application/json")

    return blueprint
