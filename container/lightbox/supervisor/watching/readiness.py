"""Readiness: the response of ``/ping``.

The supervisor answers it instead of a gunicorn worker. So it is correct at once when the model server dies, and
requests in progress never delay it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from lightbox.base.error_bodies import Headers, error_response, http_bytes
from lightbox.base.errors import STATUS_OF_CODE, LightboxError, MethodNotAllowed, PermissionDenied, Unavailable
from lightbox.base.request_context import CALLER_HEADER
from lightbox.base.telemetry.logs import LastResponse, log
from lightbox.base.telemetry.saturation import SATURATION_HEADER, Saturation
from lightbox.core.additions import Authenticator, ChildSpec, IncomingRequest, Probe, headers_of
from lightbox.core.edge import choose_request_id
from lightbox.nginx import body_memory, refusals
from lightbox.nginx.configuration import QUEUE
from lightbox.supervisor.watching.fronts import FrontWatch, connect
from lightbox.supervisor.watching.metrics_page import CONTENT_TYPE, MetricsPage
from lightbox.transports.model_status import ModelStatus


async def get(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET at ``unix:/path`` or ``host:port``; raise OSError or ValueError."""
    reader, writer = await connect(address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split(b" ", 2)[1]) if b" " in head else 0, body


def error_text(body: bytes) -> str:
    """Return the message in an error body."""
    try:
        return str(orjson.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]


POLL_SECONDS, IMPATIENT_SECONDS = 0.25, 0.05
"""Seconds between two checks of a ready and of a failing process."""
LAST_SECONDS = 5.0
"""Seconds that nginx has to read a refusal."""
GLANCE_SECONDS = 0.02
"""Seconds between two checks whether the sidecar may be probed."""
STALE_SECONDS = 10.0
"""Seconds for which the last state counts while a busy model server does not answer."""

INSTEAD_HEADER = "X-Lightbox-Instead"
"""Header of a 403 to nginx: the name of the response to send, as in nginx.conf."""
METHOD_HEADER, PATH_HEADER = "x-lightbox-method", "x-lightbox-path"
"""Headers of nginx's request: the caller's method, and its path as normalized by nginx."""
_HEAD_BYTES = 1 << 19
"""Larger than nginx's limit of a caller's headers."""
_EMPTY = ("Content-Length", "0")
_METRICS_REQUESTS = (b"GET /metrics ", b"GET /metrics?")


class ServerWatch:
    """Follows one model server: whether the default model is AVAILABLE.

    In multi-model mode, without a default model, an answering server is enough.
    """

    def __init__(self, model: str | None, status: ModelStatus) -> None:
        self._model = model
        self._status = status
        self._available_until = 0.0
        self.answered_at = 0.0
        self.problem = "the model server is starting"
        self.on_loss: Callable[[], object] = lambda: None

    @property
    def available(self) -> bool:
        """Whether requests can be served."""
        return time.monotonic() < self._available_until

    def lost(self, problem: str) -> None:
        """Note that requests cannot be served, and why."""
        self._available_until = 0.0
        self.problem = problem
        self.on_loss()

    def note_silence(self, is_silent: bool) -> None:
        """Note whether the model server is known not to answer."""
        if is_silent:
            self.lost("the model server does not answer")

    async def follow(self) -> None:
        """Poll the model's state in the model server, forever."""
        while True:
            await self._ask()
            await asyncio.sleep(POLL_SECONDS if self.available else IMPATIENT_SECONDS)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(STALE_SECONDS) as limit:
                versions = await self._status.versions(self._model or "none")
        except TimeoutError:
            if not limit.expired():  # the server has refused the call: it is busy
                self.answered_at = time.monotonic()
            return
        except OSError:
            self.lost("the model server does not answer yet")
            return
        self.answered_at = time.monotonic()
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
        self._answer = response
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
                await asyncio.sleep(POLL_SECONDS if self.problem is None else GLANCE_SECONDS)

    def _look_for_server(self) -> bool:
        found = any(server.available for server in self._servers)
        if not found:
            self._server_is_back_since, self.has_failed = None, False
            self._set_problem("the model has not been probed since its server started")
        return found

    def _look(self) -> None:
        if self._server_is_back_since is None:  # an answer noted earlier is from the server that has ended
            self._server_is_back_since = time.monotonic()
        if self._is_known and self._answer.at > self._server_is_back_since:
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
    """Knows whether requests can be served; answers /ping with 200 or 503, and /metrics if enabled."""

    def __init__(
        self, model: str | None, statuses: Sequence[ModelStatus], sidecar: str, run_dir: Path, slots: int
    ) -> None:
        self.saturation = Saturation(run_dir, slots)
        self.metrics: MetricsPage | None = None
        self.bodies: body_memory.BodyAccount | None = None
        self.refuse: Callable[[str, Mapping[str, str]], bytes] | None = None
        self.probes: Mapping[str, Probe] = {}
        self.authenticator: Authenticator | None = None
        self.servers = [ServerWatch(model, status) for status in statuses]
        self.sidecar = SidecarWatch(model, sidecar, self.servers, LastResponse(run_dir))
        self.fronts: dict[str, FrontWatch] = {}
        self.draining = False

    def watch_front(self, spec: ChildSpec) -> None:
        """Make /ping depend on a front: it must listen."""
        self.fronts[spec.name] = FrontWatch(spec)

    def problem(self) -> str | None:
        """Return why requests cannot be served now, None if they can."""
        if self.draining:
            return "stopping"
        if not any(server.available for server in self.servers):
            return self.servers[0].problem
        return self.sidecar.problem or next((front.problem for front in self.fronts.values() if front.problem), None)

    async def follow(self) -> None:
        """Watch gunicorn, the fronts and every model server, forever."""
        fronts = (front.follow() for front in self.fronts.values())
        servers = (server.follow() for server in self.servers)
        await asyncio.gather(self.sidecar.follow(), self.saturation.follow(), *fronts, *servers)

    async def serve(self, address: str) -> asyncio.Server:
        """Listen at ``unix:/path`` or ``host:port``; answer the probes, /metrics, and every other path as /ping.

        Only nginx gets responses about room for bodies and refusals; it does not forward such paths.
        """
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            return await asyncio.start_unix_server(self._answer, path, limit=_HEAD_BYTES, backlog=QUEUE)
        host, _, port = address.rpartition(":")
        return await asyncio.start_server(self._answer, host, int(port), limit=_HEAD_BYTES, backlog=QUEUE)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.decode("latin-1").split(" ", 2)[1]
            if self.bodies and target.startswith(body_memory.ROOM):
                writer.write(await self._admit(self.bodies, target, headers_of(head)))
            elif self.refuse and target.startswith(refusals.PATH):
                writer.write(self.refuse(target, headers_of(head)))
                await _drain(reader, writer)
            elif self.metrics and head.startswith(_METRICS_REQUESTS):
                writer.write(_page(await self.metrics.render(self.problem() is None, self.saturation)))
            else:
                writer.write(self._reply(head))
            await writer.drain()
        writer.close()

    async def _admit(self, bodies: body_memory.BodyAccount, target: str, sent: Mapping[str, str]) -> bytes:
        """Answer nginx before it reads a body: whether the caller is admitted, and whether there is room."""
        answer_headers: Headers = []
        if self.authenticator is not None:
            asked = IncomingRequest(sent.get(METHOD_HEADER, ""), sent.get(PATH_HEADER, ""), sent)
            try:
                answer_headers = [(CALLER_HEADER, await self.authenticator(asked))]
            except LightboxError as error:
                answer_headers = [(INSTEAD_HEADER, refusals.DENIED), (refusals.ERROR_HEADER, refusals.written(error))]
                answer_headers.append((CALLER_HEADER, error.caller if isinstance(error, PermissionDenied) else ""))
                return http_bytes(403, [*answer_headers, _EMPTY], b"")
        instead = bodies.instead(target, sent.get(body_memory.LENGTH_HEADER, ""))
        if instead is None:
            return http_bytes(204, answer_headers, b"")
        return http_bytes(403, [*answer_headers, (INSTEAD_HEADER, instead), _EMPTY], b"")

    def _reply(self, head: bytes) -> bytes:
        method, target = head.decode("latin-1").split(" ", 2)[:2]
        path = target.partition("?")[0]
        problem = self.problem()
        if probe := self.probes.get(path):
            if method not in ("GET", "HEAD"):
                return _failed(MethodNotAllowed(f"{path} takes GET, got {method}", ["GET"]), head, [])
            states = probe(problem is None)
            if problem is None or all(states.values()):
                return _good(states)
            return _failed(_not_ready(problem), head, [], **states)
        answer_headers = [(SATURATION_HEADER, f"{self.saturation.value:.3f}")]
        if problem is None:
            return http_bytes(
                200, [("Content-Type", "application/json"), ("Content-Length", "0"), *answer_headers], b""
            )
        return _failed(_not_ready(problem), head, answer_headers)


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the rest of a caller's body until nginx has the response, which a closed connection would lose."""
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            while await reader.read(1 << 16):
                pass


def _page(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"{head}\r\n\r\n".encode() + body


def _good(value: Mapping[str, bool]) -> bytes:
    body = orjson.dumps(value)
    return http_bytes(200, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))], body)


def _not_ready(problem: str) -> Unavailable:
    return Unavailable(f"not ready: {problem}")


def _failed(error: LightboxError, head: bytes, answer_headers: Headers, **more: Any) -> bytes:
    sent = headers_of(head)
    status, headers, body = error_response(error, choose_request_id(lambda name: sent.get(name.lower())), **more)
    return http_bytes(status, headers + answer_headers, body)
