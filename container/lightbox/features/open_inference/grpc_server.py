"""The gRPC server: one event loop that reads and writes, threads that work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import grpc
from typing_extensions import override

from lightbox.core.edge import MODEL_HEADER, SERVER_TIMING, Work, server_timing
from lightbox.core.errors import TooLarge
from lightbox.core.request_context import RequestContext
from lightbox.features.open_inference import grpc_messages, grpc_reflection
from lightbox.features.open_inference.grpc_calls import Caller, Outcome, WorkerPool
from lightbox.features.open_inference.grpc_gate import Gate
from lightbox.features.open_inference.grpc_health import Readiness, health_response
from lightbox.features.open_inference.grpc_service import InferenceService
from lightbox.features.open_inference.repository import server_metadata
from tfs_wire.protobuf import LENGTH_DELIMITED, read_fields

MOST_BYTES = 2**31 - 1
"""gRPC counts a message's length in a signed 32-bit number."""
ROOM = 2
"""Messages up to so many times the limit are read, so that it is we who refuse them; gRPC refuses what is beyond."""
WINDOW_BYTES = 4 << 20
"""What a caller may send of a message before it waits for a word of ours; gRPC's 64 kB are a part of a photograph."""
MAX_STREAMS = 128
"""Calls of one connection at once, as in nginx; a caller's further ones wait on its side."""
KEEPALIVE_MS = 60_000
LEAST_PING_MS = 5_000
"""Callers that ping more often than that lose their connection; some proxies do not wait gRPC's five minutes."""
LOADING = ("RepositoryModelLoad", "RepositoryModelUnload")
"""The calls that may take longer than a request."""
ACCEPT_SECONDS = 2.0
"""How long a stop waits for calls that have come and are not accepted yet; on an idle machine that is a moment."""
REQUEST_ID = "x-amzn-requestid"
_STREAM = f"/{grpc_messages.INFERENCE_SERVICE}/ModelStreamInfer"
_ID = grpc_messages.message_class("inference.ModelInferRequest").DESCRIPTOR.fields_by_name["id"].number
_FIRST_FIELDS = 8
_PAUSE_SECONDS = 0.005


class _Accepted(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Counts the calls that the server accepts, and leaves them to the next handlers."""

    count = 0

    @override
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        self.count += 1


class InferenceServer:
    """A gRPC server with two services, inference and health, and ``with_reflection`` a third that tells of them.

    Make it in the event loop that runs it.
    """

    def __init__(
        self,
        service: InferenceService,
        pool: WorkerPool,
        readiness: Readiness,
        allowed_seconds: float,
        load_seconds: float,
        max_bytes: int,
        with_reflection: bool = False,
    ) -> None:
        self._service = service
        self._pool = pool
        self._readiness = readiness
        self._allowed_seconds = allowed_seconds
        self._load_seconds = load_seconds
        self._max_bytes = max_bytes
        options = [
            ("grpc.max_receive_message_length", min(ROOM * max_bytes, MOST_BYTES)),
            ("grpc.max_send_message_length", -1),
            ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
            # Probing would let windows grow to 512 MiB, and frames to 16 MiB, which the gate holds while they come.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.so_reuseport", 0),
            # A caller that vanished without a word leaves no stream behind; callers may look whether we are there.
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_MS),
        ]
        self.server = grpc.aio.server(options=options)
        self._accepted = _Accepted()
        self.server.add_generic_rpc_handlers((self._accepted, self._inference(), self._health()))
        if with_reflection:
            self.server.add_generic_rpc_handlers(self._reflection())

    def add(self, service: str, works: Mapping[str, Work]) -> None:
        """Serve one more service; ``works`` answer its methods, in threads."""
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._handler(f"/{service}/{name}", work, self._allowed_seconds))
            for name, work in works.items()
        }
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def stop(self, grace: float, gate: Gate) -> None:
        """Accept no more calls, and wait up to ``grace`` seconds for those in progress; idle streams end at once.

        Calls that the ``gate``, which is closed, has passed on are accepted first: gRPC answers what has come and is
        not accepted when the server stops with CANCELLED, which nobody sends again.
        """
        self._readiness.stopping.set()
        until = time.monotonic() + ACCEPT_SECONDS
        while gate.calls and self._accepted.count < gate.passed and time.monotonic() < until:
            await asyncio.sleep(_PAUSE_SECONDS)
        await self.server.stop(grace)
        self._pool.close()

    def _inference(self) -> Any:
        at_once = {"ServerLive": self._live, "ServerReady": self._ready, "ServerMetadata": self._server}
        handlers: dict[str, Any] = {"ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream)}
        for method in grpc_messages.methods_of(grpc_messages.INFERENCE_SERVICE):
            if method.name in at_once:
                response = grpc_messages.message_class(method.output_type.full_name).SerializeToString
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(at_once[method.name], None, response)
            elif method.name not in handlers:
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(self._unary(method))
        return grpc.method_handlers_generic_handler(grpc_messages.INFERENCE_SERVICE, handlers)

    async def _live(self, data: bytes, rpc: Any) -> Any:
        return grpc_messages.message_class("inference.ServerLiveResponse")(live=True)

    async def _ready(self, data: bytes, rpc: Any) -> Any:
        return grpc_messages.message_class("inference.ServerReadyResponse")(ready=await self._readiness.is_ready())

    async def _server(self, data: bytes, rpc: Any) -> Any:
        return grpc_messages.message_class("inference.ServerMetadataResponse")(**server_metadata())

    def _unary(self, method: Any) -> Callable[[bytes, Any], Awaitable[bytes]]:
        """Return the handler of a call that a thread answers, message and answer as bytes."""
        route = f"/{grpc_messages.INFERENCE_SERVICE}/{method.name}"
        allowed_seconds = self._load_seconds if method.name in LOADING else self._allowed_seconds
        return self._handler(route, self._service.work(method), allowed_seconds)

    def _handler(self, route: str, work: Work, allowed_seconds: float) -> Callable[[bytes, Any], Awaitable[bytes]]:
        work = self._within_limit(work)

        async def handle(data: bytes, rpc: Any) -> bytes:
            caller = Caller(rpc, allowed_seconds)
            outcome = await self._pool.answer(route, data, caller, work)
            told = [(REQUEST_ID, caller.request_id), (SERVER_TIMING.lower(), server_timing(outcome.context))]
            if (error := outcome.error) is not None:
                told.append(("lightbox-code", error.code))
                await rpc.abort(getattr(grpc.StatusCode, error.grpc_status), error.message, tuple(told))
            if (model := outcome.context.answered_by) is not None:
                told.append((MODEL_HEADER.lower(), model))
            rpc.set_trailing_metadata(tuple(told))
            return outcome.data

        return handle

    async def _stream(self, _: Any, rpc: Any) -> None:
        """Answer one request after another; an error is told in its place and ends nothing."""
        work = self._within_limit(
            self._service.work(grpc_messages.method(grpc_messages.INFERENCE_SERVICE, "ModelInfer"))
        )
        async for data in self._messages(rpc):
            outcome = await self._pool.answer(_STREAM, data, Caller(rpc, self._allowed_seconds), work)
            await rpc.write(stream_response(data, outcome))

    def _within_limit(self, work: Work) -> Work:
        def bounded(data: bytes, header: Callable[[str], str | None], context: RequestContext) -> bytes:
            if len(data) > self._max_bytes:
                raise TooLarge(f"the message is larger than LIGHTBOX_MAX_BODY_MB={self._max_bytes >> 20} MiB")
            return work(data, header, context)

        return bounded

    async def _messages(self, rpc: Any) -> AsyncIterator[bytes]:
        """Yield what comes on a stream; one that is idle when the server stops is ended with UNAVAILABLE."""
        stopping = asyncio.ensure_future(self._readiness.stopping.wait())
        try:
            while not self._readiness.stopping.is_set():
                reading = asyncio.ensure_future(rpc.read())
                await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                if (data := reading.result()) is grpc.aio.EOF:
                    return
                yield data
        finally:
            stopping.cancel()
        await rpc.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    def _health(self) -> Any:
        request = grpc_messages.message_class("grpc.health.v1.HealthCheckRequest").FromString
        response = grpc_messages.message_class("grpc.health.v1.HealthCheckResponse").SerializeToString

        async def check(asked: Any, rpc: Any) -> Any:
            status = await self._readiness.status(asked.service)
            if status is None:
                await rpc.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {asked.service[:100]!r}")
            return health_response(status)

        async def watch(asked: Any, rpc: Any) -> AsyncIterator[Any]:
            async for status in self._readiness.changes(asked.service):
                yield health_response(status)
            await rpc.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

        handlers = {
            "Check": grpc.unary_unary_rpc_method_handler(check, request, response),
            "Watch": grpc.unary_stream_rpc_method_handler(watch, request, response),
        }
        return grpc.method_handlers_generic_handler(grpc_messages.HEALTH_SERVICE, handlers)

    def _reflection(self) -> list[Any]:
        async def reflect(_: Any, rpc: Any) -> None:
            async for data in self._messages(rpc):
                await rpc.write(grpc_reflection.answer(data))

        methods = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)}
        return [grpc.method_handlers_generic_handler(name, methods) for name in grpc_reflection.SERVICE_NAMES]


def stream_response(data: bytes, outcome: Outcome) -> bytes:
    """Return what a stream answers to a request: its answer, or its error beside its id."""
    response = grpc_messages.ModelStreamInferResponse()
    if outcome.error is None:
        response.infer_response.MergeFromString(outcome.data)
    else:
        response.error_message = outcome.error.message
        response.infer_response.id = _id_of(data)
    return bytes(response.SerializeToString())


def _id_of(data: bytes) -> str:
    """Return a request's id, "" unless it is among the first few fields: clients that write in order have it there."""
    with suppress(ValueError):
        for number, kind, value in islice(read_fields(memoryview(data)), _FIRST_FIELDS):
            if number == _ID and kind == LENGTH_DELIMITED:
                return str(value, "utf-8")
    return ""
