"""nginx.conf filled in: nginx's limits, and its responses to an overload."""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lightbox.base.error_bodies import error_body, model_error_body
from lightbox.base.errors import PortTaken, StartError, Unavailable
from lightbox.base.machine.environment import variable
from lightbox.base.settings import Settings
from lightbox.codecs import COMPRESSIBLE_TYPES
from lightbox.core.additions import NginxParts
from lightbox.core.edge import REQUEST_ID_PATTERN
from lightbox.model_runtime.cores import available_cores
from lightbox.nginx.body_memory import SMALL_BYTES
from lightbox.nginx.log import ANSWERED, FINISHED, level_to_log
from lightbox.nginx.refusals import UNAVAILABLE

_TIMES_IN_PROGRESS = 4
"""Minimum number of bodies of 0.1 to 1 MB in progress for each request of the sidecar."""
TEMPLATE = Path(__file__).with_name("nginx.conf")
REQUEST_ID = "$lightbox_request_id"
"""nginx's variable with a request's id, as in nginx.conf."""
_PLACEHOLDER = re.compile(r"@([A-Z_]+)@")
_NO_ORIGIN = "(?!)"
"""A pattern that matches nothing."""
_PROBE_LINE = re.compile(r".*@PROBE@.*\n")
"""A line of the template that is repeated for each probe."""
QUEUE = 4096
LEAST_PROCESSES = 4
"""nginx's processes are as many as the cores, and as the workers if those are more than this."""
RENEWAL_SECONDS = 2.0
"""Seconds after which the old workers of a reloaded nginx accept no more connections."""
INHERIT_VARIABLE = "NGINX"
"""nginx's variable with inherited sockets, by which a new binary takes over from an old one."""


class NginxMissing(StartError):
    """nginx is not installed; the message says what to do."""


INSTALLS = {
    "debian": "apt-get install nginx-light",
    "ubuntu": "apt-get install nginx-light",
    "fedora": "dnf install nginx",
    "alpine": "apk add nginx",
    "darwin": "brew install nginx",
}
"""The command that installs nginx, by the system's name in /etc/os-release, or the kernel's."""


def find_nginx() -> str:
    """Return nginx's path; Debian and Homebrew use folders outside of an ordinary user's PATH."""
    more = "/usr/sbin:/usr/local/sbin:/sbin:/opt/homebrew/bin"
    path = shutil.which("nginx", path=f"{variable('PATH')}:{more}")
    if path is None:
        raise NginxMissing(
            f"nginx is not installed: {how_to_install()}; for a first try without it: lightbox serve --without-nginx"
        )
    return path


def how_to_install() -> str:
    """Return the command that installs nginx on this system, or those of all known systems."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split(), platform.system().lower()]
    line = next((INSTALLS[name] for name in names if name in INSTALLS), None)
    lines = [line] if line else dict.fromkeys(INSTALLS.values())
    return f"install it with {' or '.join(map(repr, lines))}"


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
        "DRAIN_MILLISECONDS": str(max(1, int((settings.drain_seconds - settings.last_seconds) * 1000))),
        "RUN_DIR": _quotable(str(run_dir)),
        "ANSWERED": ANSWERED,
        "REQUEST_ID_PATTERN": REQUEST_ID_PATTERN,
        "FINISHED": FINISHED,
        "LOG_LEVEL": level_to_log(settings.nginx_loglevel),
        "MAX_BODY_MB": str(settings.max_body_mb),
        "MAX_BODY_BYTES": str(settings.max_body_mb << 20),
        "SMALL_BODY_BYTES": str(min(SMALL_BYTES, settings.max_body_mb << 20)),
        "UNASKED": '""' if any(part.asks_always for part in parts) else "1",
        "GENERATION": str(generation),
        "MIDDLING_BODIES": str(max(_TIMES_IN_PROGRESS * settings.most_requests, room >> 21)),
        "GZIP_TYPES": " ".join(COMPRESSIBLE_TYPES),
        "MAX_REQUESTS": str(settings.most_requests),
        # Without metrics the sidecar answers 404.
        "METRICS": "health" if settings.metrics else "sidecar",
        "PORT": str(settings.port),
        "TLS": "ssl http2" if settings.tls_cert else "",
        "SSL": "ssl" if settings.tls_cert else "",
        "CLIENTS": " ".join(part.clients for part in parts),
        "CORS_ORIGINS": _NO_ORIGIN,
        "READ_TIMEOUT": str(settings.nginx_read_timeout),
        "LOAD_READ_TIMEOUT": str(settings.nginx_load_read_timeout),
    }
    places = {name: place for part in parts for name, place in part.places.items()}
    values |= {name: _quotable(place) for name, place in {**places, **addresses}.items()}
    values |= _overload_bodies(room)
    answered = ("/ping", *probes)
    values["PROBES"] = "|".join(map(re.escape, answered))
    text = _PROBE_LINE.sub(
        lambda line: "".join(line[0].replace("@PROBE@", path) for path in answered), TEMPLATE.read_text()
    )
    for name in ("http", "server"):
        text = text.replace(f"@FEATURES_{name.upper()}@", "\n".join(getattr(part, name) for part in parts))
    text = text.replace("@ROOM@", Path(__file__).with_name("room.conf").read_text())
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _quotable(text: str) -> str:
    """Escape the characters that end a quoted string of nginx's configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _user_directive() -> str:
    """Return the user directive for root: nginx's default account cannot read the run directory."""
    return f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""


def _overload_bodies(room: int) -> dict[str, str]:
    """Return nginx's responses to an overload, escaped for single-quoted strings of its configuration."""
    unavailable = Unavailable(UNAVAILABLE)
    no_room = Unavailable(
        f"try again: all request bodies together may hold {room >> 20} MiB "
        "(LIGHTBOX_REQUEST_MEMORY_MB, and half of the free space of TMPDIR)"
    )
    bodies = {
        "ERROR_UNAVAILABLE": error_body(unavailable, REQUEST_ID),
        "ERROR_NO_ROOM": error_body(no_room, REQUEST_ID),
        "MODEL_ERROR_UNAVAILABLE": model_error_body(unavailable, REQUEST_ID),
        "MODEL_ERROR_NO_ROOM": model_error_body(no_room, REQUEST_ID),
    }
    return {name: body.decode().replace("\\", "\\\\") for name, body in bodies.items()}


def listen(address: str) -> socket.socket:
    """Return a non-blocking listening socket for nginx at ``unix:/path``, ``host:port`` or ``[::]:port``, which
    includes IPv4. Raises OSError."""
    path, (host, _, port) = address.removeprefix("unix:"), address.rpartition(":")
    family = socket.AF_UNIX if path != address else socket.AF_INET6 if "[" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_UNIX:
        Path(path).unlink(missing_ok=True)  # left by a killed process
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind(path if family == socket.AF_UNIX else (host.strip("[]"), int(port)))
    except OSError:
        listener.close()
        raise
    listener.listen(QUEUE)
    listener.setblocking(False)
    return listener


def listen_for_callers(variable: str, address: str) -> socket.socket:
    """Return a listening socket at a variable's port. Raises PortTaken."""
    try:
        return listen(address)
    except OSError as error:
        port = address.rpartition(":")[2]
        raise PortTaken(f"{variable}: port {port} cannot be opened: {error.strerror}") from None


def on_all_interfaces(port: int) -> str:
    """Return the address of a port on all interfaces, for IPv6 and IPv4 where available."""
    return f"[::]:{port}" if socket.has_dualstack_ipv6() else f"0.0.0.0:{port}"


def inherited(listeners: Sequence[socket.socket]) -> dict[str, str]:
    """Return the environment that passes the sockets to nginx; their descriptors must stay open for it."""
    return {INHERIT_VARIABLE: "".join(f"{listener.fileno()};" for listener in listeners)}


def http2_warning() -> str | None:
    """Return a warning if the installed nginx may lack the fix of HTTP/2 rapid reset, CVE-2023-44487.

    None if it has the fix, and without dpkg.
    """
    if shutil.which("dpkg-query") is None:
        return None
    query = ["dpkg-query", "--show", "--showformat=${Version}", "nginx"]
    version = subprocess.run(query, capture_output=True, text=True, check=False).stdout  # noqa: S603 - no input
    if not version or resists_rapid_reset(version):
        return None
    return (
        f"nginx {version} may lack the fix of HTTP/2 rapid reset (CVE-2023-44487), with which one caller can use up "
        "the processors: expected Debian 12's 1.22.1-9+deb12u11, or 1.25.3, or later"
    )


def resists_rapid_reset(version: str) -> bool:
    """Return whether a version of Debian's package has the fix: 1.25.3, or Debian 12's update 11, or later."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)(?:-9\+deb12u(\d+))?", version)
    if found is None:
        return False
    *number, update = (int(part or 0) for part in found.groups())
    return number >= [1, 25, 3] or (number == [1, 22, 1] and update >= 11)
