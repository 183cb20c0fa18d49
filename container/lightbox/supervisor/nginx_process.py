"""nginx as a child of the supervisor: its sockets, its configuration, and its reloads."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from lightbox.base.machine.local_sockets import listen
from lightbox.base.machine.shared_files import replace_file
from lightbox.base.telemetry.logs import RequestLog
from lightbox.core.additions import Additions, NginxParts
from lightbox.core.start import Start
from lightbox.nginx.body_memory import BodyAccount
from lightbox.nginx.configuration import render
from lightbox.nginx.installation import find_nginx
from lightbox.nginx.listeners import address_of, inherited, listen_for_callers
from lightbox.nginx.log import REFUSED, NginxLog, RefusedRequests
from lightbox.nginx.tls import TlsWatch
from lightbox.supervisor.child import Child


class NginxProcess:
    """nginx, with the state that the supervisor keeps for it. ``child`` is None for a start without nginx.

    It is not reloaded once ``stopping`` is set. ``on_reload`` is called after each reload.
    """

    def __init__(
        self,
        start: Start,
        added: Additions,
        environ: dict[str, str],
        stopping: asyncio.Event,
        on_reload: Callable[[], object],
    ) -> None:
        self._start = start
        self._settings = start.settings
        self._added = added
        self._stopping = stopping
        self._on_reload = on_reload
        self._generation = 0
        self.bodies = BodyAccount(start.room, self._settings.max_body_mb << 20)
        self.refused = RefusedRequests(RequestLog(2, self._settings.log_format == "json", "nginx"))
        self.tls = TlsWatch(self._settings, self._reload)
        self._listeners = self._listen() if self._settings.nginx else []
        self.child = self._make_child(self._write_configuration(), environ) if self._settings.nginx else None

    def _listen(self) -> list[socket.socket]:
        """Return the sockets for callers and those of features."""
        host = self._settings.host
        own = address_of(host or "0.0.0.0", self._settings.port)  # noqa: S104 - as the setting says
        listeners = [listen_for_callers(self._settings.variable("port"), own)]
        listeners += [listen_for_callers(one.variable, address_of(host, one.number)) for one in self._added.ports]
        return listeners + [listen(address) for part in self._added.nginx for address in part.listens]

    def close_listeners(self) -> None:
        """Close the supervisor's copies of the sockets: once nginx's own are closed, new callers are refused."""
        for listener in self._listeners:
            listener.close()

    def _make_child(self, nginx_conf: Path, environ: dict[str, str]) -> Child:
        log = NginxLog(self._settings.nginx_loglevel, self.refused.answered, self.bodies.give_back, self._renew)
        child = Child(
            "nginx",
            [find_nginx(), "-e", "stderr", "-c", str(nginx_conf)],
            environ | inherited(self._listeners),
            signal.SIGQUIT,
            keep_descriptors=[listener.fileno() for listener in self._listeners],
            edit=log.edit,
        )
        child.may_wait = REFUSED
        return child

    def _write_configuration(self) -> Path:
        run_dir = self._start.run_dir.path
        addresses = {"SIDECAR": self._start.address("sidecar"), "HEALTH": self._start.address("health")}
        path = run_dir / "nginx.conf"
        most_requests = self._start.plan.most_requests(self._settings)
        parts = [*self._added.nginx, NginxParts(places={"MAX_REQUESTS": str(most_requests)})]
        if self.tls.identity:
            parts.append(self.tls.identity.nginx(run_dir))
        room, probes = self._start.room, self._added.probes
        conf = render(self._settings, run_dir, addresses, room, self._generation, parts, probes)
        replace_file(path, conf.encode())
        return path

    def _renew(self, lost_worker: str) -> None:
        """Restart nginx's counters: the requests of a dead worker stay in the shared ones.

        A zone with a new name starts at zero; the old workers finish their requests with the old one.
        """
        self.bodies.lost_worker(lost_worker)
        self._generation += 1
        self._reload()

    def _reload(self) -> None:
        """Let nginx replace its workers by ones with the current configuration."""
        if self.child is not None and not self._stopping.is_set():
            self._write_configuration()
            self.child.send(signal.SIGHUP)
            self._on_reload()
