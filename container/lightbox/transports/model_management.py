"""The models of the model servers: both calls of ``ModelService``, each sent to several servers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import DeadlineExceeded, LightboxError, ModelFailed, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers
from lightbox.model_runtime.wire.messages import model_management_pb2
from lightbox.transports import pending_reload
from lightbox.transports.grpc import RenewedChannel
from lightbox.transports.model_status import (
    STATE_SECONDS,
    ServerState,
    status_method,
    versions_after_error,
    will_answer,
)


class ModelStates:
    """The states of models in the model servers, over a channel to each. Safe to use from several threads."""

    def __init__(self, channels: Sequence[RenewedChannel], answering: AnsweringServers) -> None:
        self._answering = answering
        self._statuses = [status_method(channel) for channel in channels]

    def is_loading(self, model: str, version: int | None, context: RequestContext) -> bool:
        """Return whether a server loads a version, any for None, or has just loaded it.

        Asks the servers that may be called, for at most STATE_SECONDS. Raises Unavailable.
        """
        seconds = min(context.remaining(), STATE_SECONDS)
        try:
            return will_answer(self._ask(self._answering.servers(), model, seconds), version)
        except DeadlineExceeded as error:
            raise Unavailable("the model server is busy; try again") from error

    def _ask(self, servers: Sequence[int], model: str, seconds: float) -> list[ServerState]:
        """Return a model's versions in each of ``servers``. Raises DeadlineExceeded."""
        left = max(seconds, 0.001)
        calls = [self._statuses[server].future(model, timeout=left) for server in servers]
        return [_states_of(call) for call in calls]


class ModelManagement(ModelStates):
    """Changes the models of all model servers too."""

    def __init__(self, channels: Sequence[RenewedChannel], run_dir: Path, answering: AnsweringServers) -> None:
        super().__init__(channels, answering)
        self._run_dir = run_dir
        self._reloads = [
            channel.unary_unary(
                "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
                request_serializer=model_management_pb2.ReloadConfigRequest.SerializeToString,
                response_deserializer=model_management_pb2.ReloadConfigResponse.FromString,
            )
            for channel in channels
        ]

    def reload(self, model: str, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
        """Request exactly the models of a configuration text; return each server's message, "" for OK.

        ``model`` is the one that is added or removed. A server returns OK when one version of each new model is
        AVAILABLE, and a message when it saw a failure; it may still be loading. ``wait_for_server`` waits for an
        unreachable server. Raises Unavailable, DeadlineExceeded, and ModelFailed for a refused configuration. After
        DeadlineExceeded the reload stays pending: the server gets no other one until it answers.
        """
        self._answering.check_all()
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(config, request.config)
        joins = any(entry.name == model for entry in request.config.model_config_list.config)
        waits = []
        for server, call in enumerate(self._reloads):
            end = pending_reload.begin(self._run_dir, server, "load" if joins else "unload", model, context)
            # No deadline: the server would ignore it.
            waits.append(_waiter(call.future(request, wait_for_ready=wait_for_server), end, context))
        return [_error_message(response) for response in [wait() for wait in waits]]

    def states(self, model: str, context: RequestContext) -> list[ServerState]:
        """Return each server's versions of a model. Raises Unavailable and DeadlineExceeded."""
        self._answering.check_all()
        return self._ask(range(len(self._statuses)), model, context.remaining())


def _waiter(pending: Any, end: Callable[[], None], context: RequestContext) -> Callable[[], Any]:
    """Return a function that waits for a reload's result, a response or an RpcError; the result calls ``end``."""
    ended = threading.Event()

    def note(_: Any) -> None:
        end()
        ended.set()

    def wait() -> Any:
        if not ended.wait(max(context.remaining(), 0)):
            raise DeadlineExceeded(pending_reload.LATE)
        return pending.exception() or pending.result()

    pending.add_done_callback(note)
    return wait


def _states_of(pending: Any) -> ServerState:
    try:
        error = pending.exception()
        return pending.result() if error is None else versions_after_error(error)
    except TimeoutError as error:
        raise DeadlineExceeded(pending_reload.LATE) from error
    except OSError:
        return None


def _error_message(response: Any) -> str:
    if not isinstance(response, grpc.RpcError):
        return str(response.status.error_message) if response.status.error_code else ""
    if response.code() is grpc.StatusCode.UNKNOWN:
        return response.details() or "the model server does not say why"
    raise _translate(response.code().name, response.details() or "") from response


def _translate(code: str, details: str) -> LightboxError:
    if code == "UNAVAILABLE":
        return Unavailable("the model server is not available; try again")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded(pending_reload.LATE)
    return ModelFailed(f"the model server refused to change its models: {code}: {without_folders(details)}")
