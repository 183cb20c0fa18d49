"""The routes of the page in a worker."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from flask import Blueprint, g, request, send_file, send_from_directory
from flask import Response as HttpResponse

from lightbox.core.edge import EXCHANGE
from lightbox.core.http import received_body
from lightbox.core.services import Services


def picture_blueprint(services: Services) -> Blueprint:
    """Return the route of a picture as the server reads it, which is not observed.

    Boxes are in its pixels. Browsers differ in which files they turn upright, and in those that they show.
    """
    blueprint = Blueprint("picture", __name__)
    pipeline, max_mb = services.pipeline, services.settings.max_body_mb

    @blueprint.post("/ui/picture")
    def picture() -> HttpResponse:
        request.environ[EXCHANGE].is_observed = False
        images = pipeline.codecs.images
        with received_body(request.environ, pipeline.memory, max_mb) as body:
            shown = replace(images.part(body, None), original=None)
            return HttpResponse(images.encode(shown, g.context), content_type="image/png")

    return blueprint


def files_blueprint(files: Path, start: Path, policy: str) -> Blueprint:
    """Return the routes of the folder ``files`` and of the file ``start``, which are not observed."""
    blueprint = Blueprint("page", __name__)

    @blueprint.get("/ui/<path:name>")
    def file(name: str) -> HttpResponse:
        request.environ[EXCHANGE].is_observed = False
        found = send_file(start) if name == "start.json" else send_from_directory(files, name)
        found.headers["Content-Security-Policy"] = policy
        found.headers["X-Content-Type-Options"] = "nosniff"
        found.headers["Referrer-Policy"] = "no-referrer"
        return found

    for number, path in enumerate(("/", "/ui", "/ui/")):  # with defaults, all but one would be redirects
        blueprint.add_url_rule(path, f"index_{number}", partial(file, "index.html"))
    return blueprint
