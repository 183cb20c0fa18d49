"""The page at ``/`` and ``/ui``: files that nginx serves by itself, and what of this start they need to know."""

from __future__ import annotations

import json
from pathlib import Path

from lightbox.plan import ServingPlan
from lightbox.settings import Settings

FILES = Path(__file__).resolve().parents[1] / "page"
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
            alias "{start}";
            {headers}
        }}
        location ^~ /ui/ {{
            alias "{files}/";
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


def locations(settings: Settings, run_dir: Path) -> str:
    """Return the page's locations for nginx.conf, none where the page is off."""
    if not settings.page:
        return ""
    start, files = (str(path).replace("\\", "\\\\").replace('"', '\\"') for path in (run_dir / START, FILES))
    return _LOCATIONS.format(start=start, files=files, headers=_HEADERS.strip())


def write_start(settings: Settings, plan: ServingPlan, run_dir: Path) -> None:
    """Write what the page needs and no other route tells: wires, the default model, limits. Nothing where it is off."""
    if not settings.page:
        return
    facts = {
        "default_model": plan.default_model,
        "wires": [str(name) for name in plan.wires.names],
        "max_body_mb": settings.max_body_mb,
        "multi_model": settings.multi_model,
        "openapi": settings.openapi,
        "metrics": settings.metrics,
    }
    (run_dir / START).write_text(json.dumps(facts))
