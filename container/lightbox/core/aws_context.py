"""What AWS's container tells a handler about a request."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from lightbox.core.plan import ModelServerAddress, PlannedModel
from lightbox.core.request import JSON, Body, Call
from lightbox.user_code.aws import Context, PortlessContext


class AwsContexts:
    """Makes the contexts of one process; each takes the next model server in turn."""

    def __init__(self, servers: Sequence[ModelServerAddress], channels: Sequence[Any], timeout: int) -> None:
        """``channels`` are gRPC channels, one to each server; ``timeout`` is what handlers should give their calls."""
        self._servers = list(zip(servers, channels, strict=True))
        self._turn = itertools.count()
        self._timeout = timeout

    def of(self, call: Call[Any], body: Body, model: PlannedModel) -> Context:
        """Return the context for a body of a call."""
        server, channel = self._servers[next(self._turn) % len(self._servers)]
        version = "" if call.version is None else f"/versions/{call.version}"
        path = f"/v1/models/{model.name}{version}:{body.method.value}"
        # A model that was loaded later may have the first of AWS's handlers; its server keeps the ports that it has.
        kind = Context if server.rest_port and server.grpc_port else PortlessContext
        return kind(
            model_name=model.name,
            model_version=None if call.version is None else str(call.version),
            method=call.attributes.pairs.get("tfs-method") or None,
            rest_uri=f"http://localhost:{server.rest_port}{path}" if server.rest_port else "",
            grpc_port=str(server.grpc_port or ""),
            channel=channel,
            custom_attributes=call.attributes.text,
            request_content_type=body.content_type or JSON,
            accept_header=body.accept or JSON,
            content_length=len(body.body),
            timeout=self._timeout,
        )
