"""The routes that the supervisor probes, and those of probes for a start without nginx."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import orjson
from flask import Blueprint, g
from flask import Response as HttpResponse

from lightbox.core.additions import Probe
from lightbox.core.pipeline import Pipeline


def internal_blueprint(pipeline: Pipeline) -> Blueprint:
    """Return the routes ``/internal/probe``: 200 once the default model, or a given version, has predicted."""
    blueprint = Blueprint("internal", __name__)

    @blueprint.get("/internal/probe")
    def probe() -> HttpResponse:
        pipeline.probe(g.context)
        return HttpResponse(b"", mimetype="application/json")

    @blueprint.get("/internal/probe/<model>/<int:version>")
    def probe_version(model: str, version: int) -> HttpResponse:
        pipeline.probe_version(model, version, g.context)
        return HttpResponse(b"", mimetype="application/json")

    return blueprint


def probes_blueprint(pipeline: Pipeline, probes: Mapping[str, Probe]) -> Blueprint:
    """Return ``/ping`` and the features' probes for a start without nginx; else the supervisor answers them.

    Multi-model mode has no default model to probe: there a worker's response is enough.
    """
    blueprint = Blueprint("probes", __name__)

    def answer(probe: Probe | None) -> HttpResponse:
        if pipeline.catalogue.is_fixed:
            pipeline.probe(g.context)
        return HttpResponse(orjson.dumps(probe(True)) if probe else b"", mimetype="application/json")

    for number, (path, probe) in enumerate({"/ping": None, **probes}.items()):
        blueprint.add_url_rule(path, f"probe_{number}", partial(answer, probe))
    return blueprint
