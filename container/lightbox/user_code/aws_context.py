"""Makes AWS's contexts for handlers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lightbox.base.errors import HandlerFailed
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.model.spec import Method
from lightbox.user_code.aws import JSON, Context, PortlessContext


class Attributes(Protocol):
    """A request's custom attributes: the pairs, and the header itself."""

    @property
    def pairs(self) -> Mapping[str, str]:
        """The pairs by name."""
        ...

    @property
    def text(self) -> str | None:
        """The header; None if absent."""
        ...


class AwsContexts:
    """Makes the contexts of one process; each uses the next model server in turn."""

    def __init__(
        self,
        servers: Sequence[ModelServerAddress],
        channels: Sequence[Any],
        timeout: int,
        respond: Callable[[bytes, str], object],
    ) -> None:
        """``channels`` are gRPC channels, one for each server; ``timeout`` is for a handler's calls.

        ``respond`` makes the argument of ``output_handler`` from the model's JSON and the REST address.
        """
        self._servers = list(zip(servers, channels, strict=True))
        self._answering = AnsweringServers(servers)
        self._turn = itertools.count()
        self._timeout = timeout
        self._respond = respond

    @classmethod
    def without_server(cls, respond: Callable[[bytes, str], object]) -> AwsContexts:
        """Return those of a process that runs models itself: using channel or addresses raises HandlerFailed."""
        return cls([ModelServerAddress(grpc_socket=Path())], [_NoServer()], 0, respond)

    def of(
        self,
        model: str,
        version: int | None,
        method: Method,
        attributes: Attributes,
        content_type: str,
        accept: str,
        size: int,
    ) -> Context:
        """Return the context for a body of ``size`` bytes for a model; a header is "" if absent.

        Raises ModelServerUnreachable while no model server answers.
        """
        numbers = self._answering.servers()
        server, channel = self._servers[numbers[next(self._turn) % len(numbers)]]
        of_version = "" if version is None else f"/versions/{version}"
        path = f"/v1/models/{model}{of_version}:{method.value}"
        # A model that was loaded later may have the first AWS handler; its server keeps its ports.
        kind = Context if server.rest_port and server.grpc_port else PortlessContext
        return kind(
            model_name=model,
            model_version=None if version is None else str(version),
            method=attributes.pairs.get("tfs-method") or None,
            rest_uri=f"http://localhost:{server.rest_port}{path}" if server.rest_port else "",
            grpc_port=str(server.grpc_port or ""),
            channel=channel,
            custom_attributes=attributes.text,
            request_content_type=content_type or JSON,
            accept_header=accept or JSON,
            content_length=size,
            timeout=self._timeout,
        )

    def response(self, body: bytes, context: Context) -> object:
        """Return the argument of ``output_handler`` for the model's JSON."""
        return self._respond(body, context[3])  # by index: reading the field may raise


class _NoServer:
    """Stands for a channel."""

    def __getattr__(self, name: str) -> Any:
        raise HandlerFailed("context.channel: no model server runs where a model is loaded into a process")
