"""A request as AWS's handler API sees it, and the model behind the handler."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from requests import Response

from lightbox.codecs.base import Answer
from lightbox.errors import LightboxError
from lightbox.invocation import Invocation
from lightbox.plan import ModelServerAddress, PlannedModel
from lightbox.telemetry.clock import RequestClock
from lightbox.user_code.aws import AwsHandlers, Context, rest_response
from tfs_wire import json_arrays

JSON = "application/json"
"""What a handler sees where the caller named no Content-Type or no Accept; and what a pair sends to the model."""

Predict = Callable[[Invocation], Answer]
"""The built-in handling."""


class AwsRequests:
    """Lets handlers of AWS's API answer; what a pair sends to the model passes the built-in handling's checks."""

    def __init__(self, servers: Sequence[ModelServerAddress], channels: Sequence[Any]) -> None:
        """``channels`` are gRPC channels, one to each server."""
        self._servers = list(zip(servers, channels, strict=True))
        self._turn = itertools.count()

    def answer(
        self,
        handlers: AwsHandlers,
        invocation: Invocation,
        model: PlannedModel,
        predict: Predict,
        clock: RequestClock,
    ) -> Answer:
        """Return the handler's answer; raises HandlerFailed and whatever LightboxError the handler raises."""

        def predict_json(body: bytes, context: Context) -> Response:
            sent = replace(invocation, body=body, content_type=JSON, accept=JSON)
            try:
                return rest_response(200, predict(sent).body, context.rest_uri)
            except LightboxError as error:
                # TensorFlow Serving tells a model's failure as 500; 502 is a gateway's word.
                status = 500 if error.status == 502 else error.status
                return rest_response(status, json_arrays.dumps({"error": error.message}), context.rest_uri)

        finished = handlers.invoke(invocation.body, self._context(invocation, model), predict_json, clock)
        return Answer(finished.body, finished.content_type)

    def _context(self, invocation: Invocation, model: PlannedModel) -> Context:
        server, channel = self._servers[next(self._turn) % len(self._servers)]
        version = "" if invocation.version is None else f"/versions/{invocation.version}"
        path = f"/v1/models/{model.name}{version}:{invocation.method.value}"
        return Context(
            model_name=model.name,
            model_version=None if invocation.version is None else str(invocation.version),
            method=invocation.attributes.get("tfs-method") or None,
            rest_uri=f"http://localhost:{server.rest_port}{path}",
            grpc_port=str(server.grpc_port),
            channel=channel,
            custom_attributes=invocation.custom_attributes,
            request_content_type=invocation.content_type or JSON,
            accept_header=invocation.accept or JSON,
            content_length=len(invocation.body),
        )
