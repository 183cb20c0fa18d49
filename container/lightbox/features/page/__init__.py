"""The page at ``/`` and ``/ui``: static files, and a JSON file with facts about this start.

nginx serves them; in a start without it, a worker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import NginxParts
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services
    from lightbox.core.start import Start

FILES = Path(__file__).resolve().parent / "files"
START = "page.json"
"""In the run directory; the page reads it as ``/ui/start.json``."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page loads nothing from other sites, and no site may frame it."""


class PageSettings(BaseModel):
    """The variable of the page."""

    model_config = PART

    page: bool = setting("Page", "LIGHTBOX_PAGE", default=False)
    """Serve a [page](page.md) to try models with, at `/` and `/ui`."""


class Page(Feature):
    """Static files, and a JSON file with facts about this start."""

    name = "page"
    settings = PageSettings
    paths = ("/ui",)
    shown_at = "/"

    @override
    def prepare(self, start: Start) -> None:
        """Write the facts that no route has: transports, the default model, limits, enabled features."""
        facts = {
            "default_model": start.plan.default_model,
            "wires": [str(name) for name in start.plan.transports.names],
            "max_body_mb": start.settings.max_body_mb,
            "metrics": start.settings.metrics and start.settings.nginx,
            "features": list(start.features),
        }
        (start.run_dir.path / START).write_text(json.dumps(facts))

    @override
    def nginx(self, start: Start) -> NginxParts:
        started = str(start.run_dir.path / START)
        return NginxParts.of(Path(__file__).parent, PAGE_START=started, PAGE_FILES=str(FILES), PAGE_POLICY=POLICY)

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        """Return the routes of the files, without nginx."""
        from lightbox.features.page import routes

        if not services.settings.nginx:
            yield routes.files_blueprint(FILES, services.run_dir / START, POLICY)
