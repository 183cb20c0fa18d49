"""The supervisor's HTTP server without a supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from lightbox.base.settings import Settings
from lightbox.base.telemetry.saturation import Saturation
from lightbox.core.additions import Probe
from lightbox.nginx.admission import admission
from lightbox.nginx.body_memory import BodyAccount
from lightbox.nginx.refusals import refusal
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.watching.health_server import HealthServer
from lightbox.supervisor.watching.readiness import Health


def health_server(
    folder: Path,
    health: Health | None = None,
    bodies: BodyAccount | None = None,
    settings: Settings | None = None,
    probes: Mapping[str, Probe] | None = None,
) -> HealthServer:
    """Return a server that admits every caller. Without ``health`` no model server answers /ping."""
    admit = partial(admission, bodies or BodyAccount(20, 10), None)
    refuse = partial(refusal, settings or load_settings({}))
    health = health or Health(None, [], "unix:none", folder)
    return HealthServer(health, Saturation(folder, 4), admit, refuse, probes or {})
