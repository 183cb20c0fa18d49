"""All model servers: calls go round-robin, and skip a server that cannot be reached or does not answer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from typing_extensions import override

from lightbox.base.errors import LightboxError, ModelNotFound, ModelServerUnreachable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.transports.base import Transport

AVOID_SECONDS = 1.0

Result = TypeVar("Result")


class BalancedTransport(Transport):
    """Distributes calls over transports of one kind, one for each server; ``answering`` knows which may be called.

    A call that no server has received goes to the next one; other calls are never repeated.
    """

    def __init__(self, transports: Sequence[Transport], answering: AnsweringServers) -> None:
        self.name = transports[0].name
        self._transports = list(transports)
        self._answering = answering
        self._turn = itertools.count()
        self._away_until = [0.0] * len(self._transports)

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        return self._call(lambda transport: transport.signature(model, version, name, context))

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        return self._call(lambda transport: transport.predict(call, context))

    def _call(self, call: Callable[[Transport], Result]) -> Result:
        """Return the result of the first reachable server that has the model.

        A new version reaches the servers one after another: one may describe it before another has it.
        """
        failure: LightboxError | None = None
        for index in self._order():
            try:
                result = call(self._transports[index])
            except ModelServerUnreachable as error:
                self._away_until[index] = time.monotonic() + AVOID_SECONDS
                failure = failure if isinstance(failure, ModelNotFound) else error
            except ModelNotFound as error:
                self._away_until[index] = 0.0
                failure = error
            else:
                self._away_until[index] = 0.0
                return result
        raise failure or ModelServerUnreachable("no model server can be reached")

    def _order(self) -> list[int]:
        """Return the servers in turn, unreachable ones last."""
        servers = self._answering.servers()
        if len(servers) == 1:
            return servers
        first = next(self._turn) % len(servers)
        now = time.monotonic()
        return sorted(servers[first:] + servers[:first], key=lambda server: self._away_until[server] > now)
