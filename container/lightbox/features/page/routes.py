"""The routes of the page in a worker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flask import Blueprint, request, send_file, send_from_directory
from flask import Response as HttpResponse

from lightbox.core.edge import EXCHANGE


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
