"""The states of a model's versions in the model servers, and the progress of a load, which only states decide."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

_OPTIONS = (
    # A restarted model server is found at once; gRPC's default pause grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 50),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel may have the connection of an old one
)
_BUSY = ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
STATE_SECONDS = 5.0
"""Seconds that a model server has to report its versions, if the result is optional."""


class VersionStatus(NamedTuple):
    """One version: START, LOADING, AVAILABLE, UNLOADING or END; ``error``, ``CODE: text``, if its load has failed.

    A version that has ended stays listed forever.
    """

    state: str
    error: str = ""


ServerState = Mapping[int, VersionStatus] | None
"""One server's versions of a model by number, including ended ones; None for an unreachable server."""
ON_ITS_WAY = ("START", "LOADING")
"""The states of a version that is not there yet."""


def will_answer(servers: Sequence[ServerState], version: int | None) -> bool:
    """Return whether a server loads a version, or any version for None, or has loaded it a moment ago."""
    return any(
        status.state in (*ON_ITS_WAY, "AVAILABLE") and version in (None, number)
        for server in servers
        for number, status in (server or {}).items()
    )


class Load:
    """The load of versions into model servers, by each server's states before and now.

    ``END`` with an error may be from an earlier load. It belongs to this one after any change since: another state,
    another error, or a call of ``note_started``.
    """

    def __init__(self, versions: Collection[int], before: Sequence[ServerState]) -> None:
        self._versions = versions
        self._before = [server or {} for server in before]
        self._begun: list[set[int]] = [set() for _ in before]

    def note_started(self, server: int) -> None:
        """Note that a server has started to load all versions."""
        self._begun[server].update(self._versions)

    def failure(self, servers: Sequence[ServerState]) -> tuple[int, str] | None:
        """Return a version that has failed and its error, None without a failure."""
        for before, note_started, now in zip(self._before, self._begun, servers, strict=True):
            for version, status in sorted((now or {}).items()):
                if version not in self._versions:
                    continue
                if status.state != "END" or status != before.get(version):
                    note_started.add(version)
                if status.state == "END" and status.error and version in note_started:
                    return version, status.error
        return None

    def is_done(self, servers: Sequence[ServerState]) -> bool:
        """Return whether all servers have all versions now; a ready server may have restarted since."""
        return all(
            now is not None and all(version in now and now[version].state == "AVAILABLE" for version in self._versions)
            for now in servers
        )


def status_method(channel: Any) -> Any:
    """Return GetModelStatus on a channel of gRPC or ``grpc.aio``: it returns a model's versions."""
    from lightbox.model_runtime.wire.messages import error_codes_pb2, get_model_status_pb2

    def write(model: str) -> bytes:
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        written: bytes = request.SerializeToString()
        return written

    def read(response: bytes) -> dict[int, VersionStatus]:
        found = get_model_status_pb2.GetModelStatusResponse.FromString(response).model_version_status
        return {item.version: VersionStatus(state_name(item.state), error(item.status)) for item in found}

    def error(status: Any) -> str:
        code = status.error_code
        return f"{error_codes_pb2.Code.Name(code)}: {status.error_message}" if code else ""

    state_name = get_model_status_pb2.ModelVersionStatus.State.Name
    return channel.unary_unary(
        "/tensorflow.serving.ModelService/GetModelStatus", request_serializer=write, response_deserializer=read
    )


def versions_after_error(error: Any) -> dict[int, VersionStatus]:
    """Return the versions after a failed call: none, if the server does not know the model.

    Raises TimeoutError for a busy server, OSError for an unreachable one.
    """
    if error.code().name == "NOT_FOUND":
        return {}
    raise (TimeoutError if error.code().name in _BUSY else OSError)(error.details()) from error


class ModelStatus:
    """Queries one model server at ``unix:/path`` or ``host:port`` with asyncio, in the supervisor."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel: Any = None
        self._method: Any = None

    async def versions(self, model: str) -> Mapping[int, VersionStatus]:
        """Return a model's versions by number, none for an unknown model.

        Raises OSError for an unreachable server, TimeoutError for a busy one.
        """
        # gRPC's fork handlers can abort a child before it executes another program. They are installed by the import,
        # which is therefore late: by then the children's environment is made.
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
        import grpc.aio

        if self._method is None:
            self._channel = grpc.aio.insecure_channel(self._target, options=_OPTIONS)
            self._method = status_method(self._channel)
        channel, method = self._channel, self._method  # a channel is closed with its last reference
        try:
            found: Mapping[int, VersionStatus] = await method(model)
        except grpc.aio.AioRpcError as error:
            return versions_after_error(error)
        except asyncio.CancelledError:
            # The caller has waited long enough. What may have spoiled the connection would keep the next call waiting.
            if self._channel is channel:
                self._channel, self._method = None, None
            raise
        return found

    async def versions_in_time(self, model: str) -> ServerState:
        """Return a model's versions by number, None if the server does not report them in time."""
        try:
            async with asyncio.timeout(STATE_SECONDS):
                return await self.versions(model)
        except OSError:  # TimeoutError is one
            return None

    async def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()
