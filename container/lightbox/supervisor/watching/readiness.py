"""Readiness: whether requests can be served.

The supervisor decides it instead of a gunicorn worker. So it is correct at once when the model server dies, and
requests in progress never delay it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from lightbox.base.error_bodies import error_text
from lightbox.base.errors import STATUS_OF_CODE
from lightbox.base.plain_http import get
from lightbox.base.telemetry.logs import LastResponse, log
from lightbox.core.additions import ChildSpec
from lightbox.supervisor.watching.fronts import FrontWatch
from lightbox.supervisor.watching.lasting import lasting
from lightbox.transports.model_status import ModelStatus

STOPPING = "stopping"
"""The problem of a server that ends."""
POLL_SECONDS, IMPATIENT_SECONDS = 0.5, 0.05
"""Seconds between two calls of a ready and of a failing model server: each costs both processes a millisecond."""
CALM_SECONDS, GLANCE_SECONDS = 0.25, 0.02
"""Seconds between two checks, without a call, whether the sidecar is as it was, and whether it may be probed."""
STALE_SECONDS = 10.0
"""Seconds for which the last state counts while a busy model server does not answer."""


class ServerWatch:
    """Follows one model server: whether the default model is AVAILABLE.

    In multi-model mode, without a default model, an answering server is enough.
    """

    def __init__(self, model: str | None, status: ModelStatus) -> None:
        self._model = model
        self._status = status
        self._available_until = 0.0
        self.responded_at = 0.0
        self.problem = "the model server is starting"
        self.on_loss: Callable[[], object] = lambda: None
        self._loss = asyncio.Event()

    @property
    def available(self) -> bool:
        """Whether requests can be served."""
        return time.monotonic() < self._available_until

    def lost(self, problem: str) -> None:
        """Note that requests cannot be served, and why."""
        self._available_until = 0.0
        self.problem = problem
        self._loss.set()
        self.on_loss()

    def note_silence(self, is_silent: bool) -> None:
        """Note whether the model server is known not to answer."""
        if is_silent:
            self.lost("the model server does not answer")

    async def follow(self) -> None:
        """Poll the model's state in the model server, forever; after a noted loss at once."""
        while True:
            await self._ask()
            self._loss.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if self.available else IMPATIENT_SECONDS):
                    await self._loss.wait()

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(STALE_SECONDS) as limit:
                versions = await self._status.versions(self._model or "none")
        except TimeoutError:
            if not limit.expired():  # the server has refused the call: it is busy
                self.responded_at = time.monotonic()
            return
        except OSError:
            self.lost("the model server does not answer yet")
            return
        self.responded_at = time.monotonic()
        states = [version.state for version in versions.values()]
        if self._model is None or "AVAILABLE" in states:
            self._available_until = time.monotonic() + STALE_SECONDS
        else:
            self.lost(f"the model {self._model!r} is {', '.join(states) or 'not known'} in the model server")


class SidecarWatch:
    """Follows gunicorn: whether it gets a prediction of the default model, probed once after each start of either.

    After a restart of the model server, a caller's successful request counts as a probe, and does not wait in the
    queue.
    """

    def __init__(self, model: str | None, address: str, servers: Sequence[ServerWatch], response: LastResponse) -> None:
        self._model = model
        self._address = address
        self._servers = servers
        self._response = response
        self._trial: asyncio.Task[str | None] | None = None
        self.has_failed = False
        """Whether the default model is loaded and does not answer."""
        self._server_is_back_since: float | None = None
        self._is_known = True
        self.problem: str | None = "the model has not been probed yet"
        for server in servers:  # one may be back before the next check
            server.on_loss = self._look_for_server

    def ended(self) -> None:
        """Note that gunicorn has ended. Its workers may still answer: only a probe shows that the next one does."""
        self._is_known = False
        self._set_problem("the sidecar has ended and is started again")

    async def follow(self) -> None:
        """Probe the model when necessary, forever."""
        while True:
            if self._look_for_server() and self.problem is not None:
                self._look()
            if self._trial is not None:
                await asyncio.wait({self._trial}, timeout=IMPATIENT_SECONDS)
            else:
                await asyncio.sleep(CALM_SECONDS if self.problem is None else GLANCE_SECONDS)

    def _look_for_server(self) -> bool:
        found = any(server.available for server in self._servers)
        if not found:
            self._server_is_back_since, self.has_failed = None, False
            self._set_problem("the model has not been probed since its server started")
        return found

    def _look(self) -> None:
        if self._server_is_back_since is None:  # an answer noted earlier is from the server that has ended
            self._server_is_back_since = time.monotonic()
        if self._is_known and self._response.at > self._server_is_back_since:
            self._set_problem(None)
        elif self._trial is None:
            if not self.has_failed:
                self._trial = asyncio.create_task(self._try())
        elif self._trial.done():
            self._set_problem(self._trial.result())

    def _set_problem(self, problem: str | None) -> None:
        self.problem = problem
        self._is_known = self._is_known or problem is None
        if self._trial is not None:
            self._trial.cancel()
            self._trial = None

    async def _try(self) -> str | None:
        """Return why the sidecar gets no prediction of the default model, None if it does."""
        path = "/internal/probe" if self._model is not None else "/internal/none"
        try:
            status, body = await get(self._address, path)
        except (OSError, ValueError):
            return "the sidecar is starting"
        if self._model is None or status == 200:
            return None
        problem = f"the model {self._model!r} does not answer: {error_text(body)}"
        if status == STATUS_OF_CODE["model_failed"].http:  # this stays so until the model is loaded again
            self.has_failed = True
            log(f"not ready: {problem}")
        return problem


class Health:
    """Knows whether requests can be served, and why not."""

    def __init__(self, model: str | None, statuses: Sequence[ModelStatus], sidecar: str, run_dir: Path) -> None:
        self.servers = [ServerWatch(model, status) for status in statuses]
        self.sidecar = SidecarWatch(model, sidecar, self.servers, LastResponse(run_dir))
        self.fronts: dict[str, FrontWatch] = {}
        self.draining = False

    def watch_front(self, spec: ChildSpec) -> None:
        """Make readiness depend on a front: it must listen."""
        self.fronts[spec.name] = FrontWatch(spec)

    def problem(self) -> str | None:
        """Return why requests cannot be served now, None if they can."""
        if self.draining:
            return STOPPING
        if not any(server.available for server in self.servers):
            return self.servers[0].problem
        return self.sidecar.problem or next((front.problem for front in self.fronts.values() if front.problem), None)

    async def follow(self) -> None:
        """Watch gunicorn, the fronts and every model server, forever."""
        fronts = (lasting(front.follow) for front in self.fronts.values())
        servers = (lasting(server.follow) for server in self.servers)
        await asyncio.gather(lasting(self.sidecar.follow), *fronts, *servers)
