"""The page at ``/`` and ``/ui``: files that nginx serves by itself, and what of this start they need to know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.core.settings import Settings
from lightbox.core.settings_types import PART, setting
from lightbox.feature import Feature
from lightbox.processes.additions import NginxParts

if TYPE_CHECKING:
    from lightbox.processes.start import Start

FILES = Path(__file__).resolve().parent / "files"
START = "page.json"
"""In the run directory; the page reads it as ``/ui/start.json``."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page loads nothing from elsewhere, and nobody may frame it."""

_LOCATIONS = """
        location = / {{
            rewrite ^ /ui/index.html last;
        }}
        location = /ui {{
            rewrite ^ /ui/index.html last;
        }}
        location = /ui/start.json {{
            alias "@PAGE_START@";
            {headers}
        }}
        location ^~ /ui/ {{
            alias "@PAGE_FILES@/";
            {headers}
        }}
"""
# add_header here takes the place of the server's own, so the request's id is repeated. no-cache: browsers ask each time
# whether the ETag is still the same.
_HEADERS = f"""
            charset utf-8;
            charset_types text/css text/javascript application/json;
            types {{ text/html html; text/css css; text/javascript js; application/json json; image/png png;
                    image/jpeg jpg; text/plain txt; }}
            gzip_types text/css text/javascript;
            gzip_min_length 1000;
            add_header X-Amzn-RequestId $lightbox_request_id always;
            add_header Content-Security-Policy "{POLICY}" always;
            add_header X-Content-Type-Options nosniff always;
            add_header Referrer-Policy no-referrer always;
            add_header Cache-Control no-cache;
"""


class PageSettings(BaseModel):
    """The variable of the page."""

    model_config = PART

    page: bool = setting("Page", "LIGHTBOX_PAGE", default=False)
    """Serve a page to try models with, at `/` and `/ui`. `make serve` turns it on."""


class Page(Feature):
    """Files that nginx serves by itself, and what of this start they need to know."""

    name = "page"
    settings = PageSettings
    shown_at = "/"

    @override
    def enabled(self, settings: Settings) -> bool:
        return settings.of(PageSettings).page

    @override
    def prepare(self, start: Start) -> None:
        """Write what the page needs and no other route tells: wires, the default model, limits, what is on."""
        facts = {
            "default_model": start.plan.default_model,
            "wires": [str(name) for name in start.plan.wires.names],
            "max_body_mb": start.settings.max_body_mb,
            "metrics": start.settings.metrics,
            "features": list(start.features),
        }
        (start.run_dir.path / START).write_text(json.dumps(facts))

    @override
    def nginx(self, start: Start) -> NginxParts:
        places = {"PAGE_START": str(start.run_dir.path / START), "PAGE_FILES": str(FILES)}
        return NginxParts(server=_LOCATIONS.format(headers=_HEADERS.strip()), places=places)
