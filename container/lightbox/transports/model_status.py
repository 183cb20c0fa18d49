"""Asking a model server for the states of a model without blocking: for the process that starts the others."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

_OPTIONS = (
    # A restarted model server is found again at once; by default the pause grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 50),
    ("grpc.enable_http_proxy", 0),
)
_BUSY = ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")


class VersionStatus(NamedTuple):
    """One version: START, LOADING, AVAILABLE, UNLOADING or END; ``error``, ``CODE: text``, where its load has failed.

    A version that has ended stays listed for ever.
    """

    version: int
    state: str
    error: str = ""


class ModelStatus:
    """Asks one model server at ``unix:/path`` or ``host:port``."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel: Any = None
        self._ask: Callable[[str], Awaitable[list[VersionStatus]]] | None = None

    async def states(self, model: str) -> list[str]:
        """Return the states of a model's versions, none for a model that is not known. Raises as ``versions``."""
        return [version.state for version in await self.versions(model)]

    async def versions(self, model: str) -> list[VersionStatus]:
        """Return a model's versions, none for a model that is not known.

        Raises OSError when no server answers, TimeoutError when it is too busy.
        """
        if self._ask is None:
            self._ask = self._connect()
        return await self._ask(model)

    def _connect(self) -> Callable[[str], Awaitable[list[VersionStatus]]]:
        # gRPC's handlers of a fork can abort a child before it becomes another program. It looks here when it is
        # imported, which is therefore late; the environment of the children has been made before.
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
        import grpc.aio

        from tfs_wire.messages import error_codes_pb2
        from tfs_wire.messages import get_model_status_pb2 as status

        self._channel = grpc.aio.insecure_channel(self._target, options=_OPTIONS)
        call = self._channel.unary_unary(
            "/tensorflow.serving.ModelService/GetModelStatus",
            request_serializer=status.GetModelStatusRequest.SerializeToString,
            response_deserializer=status.GetModelStatusResponse.FromString,
        )

        def told(item: Any) -> VersionStatus:
            code = item.status.error_code
            error = f"{error_codes_pb2.Code.Name(code)}: {item.status.error_message}" if code else ""
            return VersionStatus(item.version, status.ModelVersionStatus.State.Name(item.state), error)

        async def ask(model: str) -> list[VersionStatus]:
            request = status.GetModelStatusRequest()
            request.model_spec.name = model
            try:
                response = await call(request)
            except grpc.aio.AioRpcError as error:
                code = error.code().name
                if code == "NOT_FOUND":
                    return []
                raise (TimeoutError if code in _BUSY else OSError)(error.details()) from error
            return [told(item) for item in response.model_version_status]

        return ask

    async def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()
