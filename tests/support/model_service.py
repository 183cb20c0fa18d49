"""A ModelService on a real gRPC server with scripted answers: an order without timing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from lightbox.model_runtime.wire.messages import error_codes_pb2, get_model_status_pb2, model_management_pb2

States = Mapping[int, str] | None
"""A model's versions as one GetModelStatus tells them: ``LOADING``, or ``END DATA_LOSS: text``; None is UNAVAILABLE."""

_CODES = {code.name: code for code in grpc.StatusCode}


@dataclass(frozen=True)
class Reload:
    """The answer to a reload, and the answers to the status calls after it; the last one repeats.

    ``answer`` is the name of a status, the text of UNKNOWN, or "" for OK.
    """

    answer: str
    states: Sequence[States]
    after: threading.Event | None = None
    """The event that the response waits for."""


class ScriptedServer:
    """Answers each reload, and the status calls after it, by the next entry of the script; the last one repeats.

    ``reloads`` has the model names of each reload, ``asked`` counts the status calls since.
    """

    def __init__(self, *script: Reload) -> None:
        self._script = list(script)
        self._states: list[States] = [{}]
        self._lock = threading.Lock()
        self.reloads: list[list[str]] = []
        self.asked = 0

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.ServicerContext
    ) -> model_management_pb2.ReloadConfigResponse:
        with self._lock:
            self.reloads.append([model.name for model in request.config.model_config_list.config])
            entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            self._states, self.asked = list(entry.states), 0
        if entry.after is not None:
            entry.after.wait()
        if entry.answer:
            context.abort(_CODES.get(entry.answer, grpc.StatusCode.UNKNOWN), entry.answer)
        return model_management_pb2.ReloadConfigResponse()

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        with self._lock:
            self.asked += 1
            states = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if states is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        if not states:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Could not find any versions of model {request.model_spec.name}")
        answer = get_model_status_pb2.GetModelStatusResponse()
        for version, text in sorted((states or {}).items(), reverse=True):
            name, _, error = text.partition(" ")
            item = answer.model_version_status.add(version=version, state=name)
            if error:
                code, _, message = error.partition(": ")
                item.status.error_code = error_codes_pb2.Code.Value(code)
                item.status.error_message = message
        return answer

    def say(self, states: States) -> None:
        """Set the answers from now on."""
        with self._lock:
            self._states, self.asked = [states], 0


@contextmanager
def serving(server: ScriptedServer, socket: Path) -> Iterator[str]:
    """Serve on a unix socket; yield the target of a channel to it."""
    management, status = model_management_pb2, get_model_status_pb2
    methods = {
        "HandleReloadConfigRequest": grpc.unary_unary_rpc_method_handler(
            server.reload,
            request_deserializer=management.ReloadConfigRequest.FromString,
            response_serializer=management.ReloadConfigResponse.SerializeToString,
        ),
        "GetModelStatus": grpc.unary_unary_rpc_method_handler(
            server.status,
            request_deserializer=status.GetModelStatusRequest.FromString,
            response_serializer=status.GetModelStatusResponse.SerializeToString,
        ),
    }
    listener = grpc.server(futures.ThreadPoolExecutor(4))
    listener.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("tensorflow.serving.ModelService", methods),)
    )
    listener.add_insecure_port(f"unix:{socket}")
    listener.start()
    try:
        yield f"unix:{socket}"
    finally:
        listener.stop(0).wait()


@contextmanager
def channel_to(server: ScriptedServer, socket: Path) -> Iterator[grpc.Channel]:
    """Serve on a unix socket; yield a channel to it."""
    with serving(server, socket) as target, grpc.insecure_channel(target) as channel:
        yield channel
