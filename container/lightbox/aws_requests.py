"""A request as AWS's handler API sees it, and the model behind the handler."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import requests

from lightbox.call import Call
from lightbox.codecs.base import Response
from lightbox.contents import Invocation
from lightbox.plan import ModelServerAddress, PlannedModel
from lightbox.request_context import RequestContext
from lightbox.user_code.aws import JSON, AwsHandlers, Context, PortlessContext, rest_response

Predict = Callable[[Call[Response]], Response]
"""The built-in handling."""


class AwsRequests:
    """Lets handlers of AWS's API answer; what a pair sends to the model passes the built-in handling's checks."""

    def __init__(self, servers: Sequence[ModelServerAddress], channels: Sequence[Any], timeout: int) -> None:
        """``channels`` are gRPC channels, one to each server; ``timeout`` is what handlers should give their calls."""
        self._servers = list(zip(servers, channels, strict=True))
        self._turn = itertools.count()
        self._timeout = timeout

    def answer(
        self,
        handlers: AwsHandlers,
        call: Call[Any],
        body: Invocation,
        model: PlannedModel,
        predict: Predict,
        request_context: RequestContext,
    ) -> Response:
        """Return the handler's answer to a body of a call; raises as AwsHandlers.invoke and ``predict`` do."""

        def predict_json(prepared: bytes, context: Context) -> requests.Response:
            # By its place: the field may be one that cannot be read.
            return rest_response(predict(call.carrying(body.as_json(prepared))).body, context[3])

        finished = handlers.invoke(body.body, self._context(call, body, model), predict_json, request_context)
        return Response(finished.body, finished.content_type)

    def _context(self, call: Call[Any], body: Invocation, model: PlannedModel) -> Context:
        server, channel = self._servers[next(self._turn) % len(self._servers)]
        version = "" if call.version is None else f"/versions/{call.version}"
        path = f"/v1/models/{model.name}{version}:{body.method.value}"
        # A model that was loaded later may have the first of AWS's handlers; its server keeps the ports that it has.
        kind = Context if server.rest_port and server.grpc_port else PortlessContext
        return kind(
            model_name=model.name,
            model_version=None if call.version is None else str(call.version),
            method=call.attributes.get("tfs-method") or None,
            rest_uri=f"http://localhost:{server.rest_port}{path}" if server.rest_port else "",
            grpc_port=str(server.grpc_port or ""),
            channel=channel,
            custom_attributes=call.custom_attributes,
            request_content_type=body.content_type or JSON,
            accept_header=body.accept or JSON,
            content_length=len(body.body),
            timeout=self._timeout,
        )
