"""nginx.conf filled in: nginx's limits, and its responses to an overload."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path

from lightbox.base.error_bodies import error_body, model_error_body
from lightbox.base.errors import QueueFull, Starting, WorkerLost
from lightbox.base.request_context import REQUEST_ID_PATTERN
from lightbox.base.settings import Settings
from lightbox.codecs import COMPRESSIBLE_TYPES
from lightbox.core.additions import NginxParts
from lightbox.model_runtime.cores import available_cores
from lightbox.nginx.body_memory import STEPS_MB
from lightbox.nginx.listeners import address_of
from lightbox.nginx.log import ANSWERED, FINISHED, level_to_log
from lightbox.nginx.refusals import FULL

_TIMES_IN_PROGRESS = 4
"""Minimum number of bodies of 0.1 to 1 MB in progress for each request of the sidecar."""
_SEND_SECONDS = 30
"""How long nginx waits for a client that does not read."""
_REFUSALS_A_SECOND, _REFUSAL_SECONDS = 100, 2
"""The most that nginx sends for each core, 2 % of its time, and how long one waits for its turn at most. Further ones
are sent at once."""
TEMPLATE = Path(__file__).with_name("nginx.conf")
REQUEST_ID = "$lightbox_request_id"
"""nginx's variable with a request's id, as in nginx.conf."""
_PLACEHOLDER = re.compile(r"@([A-Z_]+)@")
_NOTHING = "(?!)"
"""A pattern that matches nothing; features fill in another one."""
LEAST_PROCESSES = 4
"""nginx's processes are as many as the cores, and as the workers if those are more than this."""


def render(
    settings: Settings,
    run_dir: Path,
    addresses: Mapping[str, str],
    room: int,
    generation: int = 0,
    parts: Sequence[NginxParts] = (),
    probes: Iterable[str] = (),
) -> str:
    """Return nginx.conf with every placeholder filled in; an unknown one raises KeyError.

    ``addresses`` are those of SIDECAR and HEALTH. ``room`` is the limit of all large bodies in bytes. A new
    ``generation`` restarts nginx's counters. ``parts`` are those of the features, and ``probes`` are the paths that the
    supervisor answers beside /ping.
    """
    values = {
        "USER": _user_directive(),
        "WORKER_PROCESSES": str(min(available_cores(), max(settings.workers, LEAST_PROCESSES))),
        # Also a reload ends what the old workers have not finished by then. A stop ends them itself.
        "SHUTDOWN_SECONDS": str(max(ceil(settings.drain_seconds), settings.nginx_load_read_timeout + _SEND_SECONDS)),
        "SEND_SECONDS": str(_SEND_SECONDS),
        "RUN_DIR": _quotable(str(run_dir)),
        "ANSWERED": ANSWERED,
        "REQUEST_ID_PATTERN": REQUEST_ID_PATTERN,
        "FINISHED": FINISHED,
        "LOG_LEVEL": level_to_log(settings.nginx_loglevel),
        "MAX_BODY_MB": str(settings.max_body_mb),
        "MAX_BODY_BYTES": str(settings.max_body_mb << 20),
        "UNASKED": '""' if any(part.asks_always for part in parts) else "1",
        "GENERATION": str(generation),
        "REFUSALS": str(_REFUSALS_A_SECOND * available_cores()),
        "WAITING_REFUSALS": str(_REFUSAL_SECONDS * _REFUSALS_A_SECOND * available_cores()),
        "MIDDLING_BODIES": str(max(_TIMES_IN_PROGRESS * settings.most_requests, room >> 21)),
        "GZIP_TYPES": " ".join(COMPRESSIBLE_TYPES),
        "MAX_REQUESTS": str(settings.most_requests),
        # Without metrics the sidecar answers 404.
        "METRICS": "health" if settings.metrics else "sidecar",
        "LISTEN": address_of(settings.host, settings.port) if settings.host else str(settings.port),
        "PORT": str(settings.port),
        "TLS": "ssl http2" if settings.tls_cert else "",
        "SSL": "ssl" if settings.tls_cert else "",
        "CLIENTS": " ".join(part.clients for part in parts),
        "CORS_ORIGINS": _NOTHING,
        "GRPC_PROBES": _NOTHING,
        "MODEL_ERRORS": _NOTHING,
        "READ_TIMEOUT": str(settings.nginx_read_timeout),
        "LOAD_READ_TIMEOUT": str(settings.nginx_load_read_timeout),
    }
    places = {name: place for part in parts for name, place in part.places.items()}
    values |= {name: _quotable(place) for name, place in {**places, **addresses}.items()}
    values |= _overload_bodies()
    paths = ("/ping", *probes)
    values["PROBES"] = "|".join(map(re.escape, paths))
    text = _repeated(_repeated(TEMPLATE.read_text(), "@PROBE@", paths), "@STEP_MB@", map(str, STEPS_MB))
    for name in ("http", "server"):
        text = text.replace(f"@FEATURES_{name.upper()}@", "\n".join(getattr(part, name) for part in parts))
    text = text.replace("@ROOM@", Path(__file__).with_name("room.conf").read_text())
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _repeated(text: str, placeholder: str, values: Iterable[str]) -> str:
    """Return ``text`` with each line that has the placeholder once for each value."""
    fills = [*values]
    return "".join(
        "".join(line.replace(placeholder, fill) for fill in fills) if placeholder in line else line
        for line in text.splitlines(keepends=True)
    )


def _quotable(text: str) -> str:
    """Escape the characters that end a quoted string of nginx's configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _user_directive() -> str:
    """Return the user directive for root: nginx's default account cannot read the run directory."""
    return f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""


def _overload_bodies() -> dict[str, str]:
    """Return nginx's responses to an overload, escaped for single-quoted strings of its configuration."""
    no_room = QueueFull("try again: the bodies of other requests have all the room (LIGHTBOX_REQUEST_MEMORY_MB)")
    found = {
        "NO_ROOM": no_room,
        "FULL": QueueFull(FULL),
        "STARTING": Starting("try again: no worker takes requests yet, because Lightbox is starting or restarting"),
        "LOST": WorkerLost("try again: the worker ended while it had the request"),
    }
    forms = {"ERROR": error_body, "MODEL_ERROR": model_error_body}
    bodies = {
        f"{form}_{name}": write(error, REQUEST_ID) for form, write in forms.items() for name, error in found.items()
    }
    return {name: body.decode().replace("\\", "\\\\") for name, body in bodies.items()}
