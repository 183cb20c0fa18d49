"""Forwards requests of TensorFlow Serving's own APIs unchanged to a model server."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from urllib3 import HTTPConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as TimedOut

from lightbox.base.errors import DeadlineExceeded, ModelServerUnreachable, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.transports.base import RECONNECT_PAUSE, RECONNECT_SECONDS
from lightbox.transports.rest_connections import exchange, rest_connections


@dataclass(frozen=True)
class ServerResponse:
    """A model server's response."""

    status: int
    content_type: str
    body: bytes
    target: str
    """The path of the request."""


class RestForward:
    """Sends requests to the REST API of model servers in turn."""

    def __init__(self, servers: Sequence[ModelServerAddress], connections: int) -> None:
        self._answering = AnsweringServers(servers)
        self._pools = [rest_connections(server, connections) for server in servers]
        self._turn = itertools.count()

    def send(self, method: str, targets: Sequence[str], body: bytes | None, context: RequestContext) -> ServerResponse:
        """Return the first response other than 404 for ``targets``, paths in order of preference; else a 404.

        Raises ModelServerUnreachable, Unavailable and DeadlineExceeded.
        """

        def attempt() -> ServerResponse | None:
            first = next(self._turn)
            missing = None
            servers = self._answering.servers()
            for target, step in itertools.product(targets, range(len(servers))):
                pool = self._pools[servers[(first + step) % len(servers)]]
                response = _send(pool, method, target, body, context)
                if response is not None and response.status != 404:
                    return response
                missing = response or missing
            return missing

        if (response := context.poll(attempt, RECONNECT_PAUSE, RECONNECT_SECONDS)) is None:
            raise ModelServerUnreachable("no model server can be reached")
        return response


def _send(
    pool: HTTPConnectionPool, method: str, target: str, body: bytes | None, context: RequestContext
) -> ServerResponse | None:
    """Return a server's response, None if it cannot be reached."""
    try:
        response = exchange(pool, method, target, body, context)
    except TimedOut as error:
        raise DeadlineExceeded("the model server did not answer in time") from error
    except HTTPError as error:
        raise Unavailable("the model server ended while it processed the request") from error
    if response is None:
        return None
    return ServerResponse(response.status, response.headers.get("Content-Type", ""), response.data, target)
