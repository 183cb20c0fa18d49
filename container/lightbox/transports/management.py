"""Telling model servers which models to serve: ``ModelService/HandleReloadConfigRequest``."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.protobuf import text_format

from lightbox.errors import BadRequest, DeadlineExceeded, LightboxError, NoRoom, Unavailable
from lightbox.hidden_folders import without_folders
from lightbox.telemetry.clock import RequestClock
from tfs_wire.messages import model_management_pb2

METHOD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


class ModelManagement:
    """Reloads the configuration of all model servers over their channels."""

    def __init__(self, channels: Sequence[grpc.Channel]) -> None:
        self._calls = [
            channel.unary_unary(
                METHOD,
                request_serializer=model_management_pb2.ReloadConfigRequest.SerializeToString,
                response_deserializer=model_management_pb2.ReloadConfigResponse.FromString,
            )
            for channel in channels
        ]

    def reload(self, config: str, clock: RequestClock) -> None:
        """Have exactly the models of a configuration text served; returns when they are.

        Raises BadRequest when a model cannot be loaded, NoRoom when there is no memory for it,
        Unavailable and DeadlineExceeded.
        """
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(config, request.config)
        for call in self._calls:
            try:
                reply = call(request, timeout=max(clock.remaining(), 0.001))
            except grpc.RpcError as error:
                raise _translate(error.code().name, error.details() or "") from error
            if reply.status.error_code:
                raise _translate("UNKNOWN", reply.status.error_message)


def _translate(code: str, message: str) -> LightboxError:
    message = without_folders(message)
    if code == "UNAVAILABLE":
        return Unavailable("the model server is not available; try again")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded("the model server did not load the model in time")
    if code == "RESOURCE_EXHAUSTED" or "RESOURCE_EXHAUSTED" in message:
        return NoRoom(f"the model server has no memory for the model: {message}")
    return BadRequest(f"the model cannot be loaded: {message}")
