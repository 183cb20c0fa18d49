"""Several model servers: calls go to them in turn, and to the next one when one is away."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from typing_extensions import override

from lightbox.core.errors import LightboxError, ModelNotFound, ModelServerUnreachable
from lightbox.core.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.transports.base import Transport

AVOID_SECONDS = 1.0

Result = TypeVar("Result")


class BalancedTransport(Transport):
    """Spreads calls over transports of one kind, each to a server of its own.

    A call that no model has seen goes to the next server; another is not repeated.
    """

    def __init__(self, transports: Sequence[Transport]) -> None:
        self.name = transports[0].name
        self._transports = list(transports)
        self._turn = itertools.count()
        self._away_until = [0.0] * len(self._transports)

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        return self._call(lambda transport: transport.signature(model, version, name, context))

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        return self._call(lambda transport: transport.predict(call, context))

    def _call(self, call: Callable[[Transport], Result]) -> Result:
        """Return what the first server answers that can be reached and has the model.

        A new version is not in all servers at once: one may describe it, and another not have it yet.
        """
        failure: LightboxError = ModelServerUnreachable("no model server can be reached")
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
        raise failure

    def _order(self) -> list[int]:
        """Return the servers in turn, those that were away a moment ago last."""
        count = len(self._transports)
        first = next(self._turn) % count
        now = time.monotonic()
        return sorted(((first + step) % count for step in range(count)), key=lambda i: self._away_until[i] > now)
