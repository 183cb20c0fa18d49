"""The gRPC methods, behind nginx: unary calls as an ASGI app over HTTP/1.1, streams over HTTP/2.

nginx speaks gRPC to callers. It forwards a unary call as a POST, and makes gRPC's trailers from headers of the response
(``http.conf``): so here a call's trailers are in its headers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from google.protobuf.message import DecodeError

from lightbox.base.error_bodies import GRPC_STATUS, grpc_trailers
from lightbox.base.errors import (
    ClientDisconnected,
    LightboxError,
    MalformedBody,
    RouteNotFound,
    Unavailable,
    UnsupportedMediaType,
)
from lightbox.base.request_context import REQUEST_ID_HEADER
from lightbox.base.telemetry.logs import UNMATCHED
from lightbox.core.edge import MODEL_HEADER, SERVER_TIMING, Work, as_lightbox_error
from lightbox.features.open_inference.dataplane import DataPlane
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc import reflection as grpc_reflection
from lightbox.features.open_inference.grpc.calls import Caller, Outcome, WorkerPool
from lightbox.features.open_inference.grpc.health_service import SERVICE_UNKNOWN, WATCH_SECONDS, Readiness
from lightbox.features.open_inference.grpc.http2 import Header, StreamConnection
from lightbox.features.open_inference.grpc.incoming import (
    PREFIX,
    Account,
    Chunks,
    Incoming,
    TooLargeMessage,
    Unimplemented,
)
from lightbox.features.open_inference.grpc.servicer import InferenceService
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields

LOADING = ("RepositoryModelLoad", "RepositoryModelUnload")
"""Calls that may take longer than a request."""
INFER, HEALTH = (f"/{service}/" for service in (grpc_messages.INFERENCE_SERVICE, grpc_messages.HEALTH_SERVICE))
_TYPE = ("content-type", "application/grpc")
_ID = grpc_messages.message_class("inference.ModelInferRequest").DESCRIPTOR.fields_by_name["id"].number
_FIRST_FIELDS = 8

RENEWED = "try again: the server is stopping, or replaces the process that held the stream"
HEALTH_RESPONSE = "grpc.health.v1.HealthCheckResponse"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
AtOnce = Callable[[bytes], Awaitable[bytes]]
"""Answers a message in the event loop; neither logged nor counted."""


@dataclass(frozen=True)
class Threaded:
    """A method that runs in a thread, within ``allowed_seconds``."""

    work: Work
    allowed_seconds: float


class InferenceServer:
    """Two services, inference and health, and with ``with_reflection`` a third that describes them.

    Belongs to one event loop. ``account`` limits the calls' memory, ``pool`` answers them.
    """

    def __init__(
        self,
        service: InferenceService,
        pool: WorkerPool,
        readiness: Readiness,
        account: Account,
        allowed_seconds: float,
        load_seconds: float,
        with_reflection: bool = False,
    ) -> None:
        self._pool = pool
        self._readiness = readiness
        self._account = account
        self._allowed_seconds = allowed_seconds
        self._infer = service.work(grpc_messages.method(grpc_messages.INFERENCE_SERVICE, "ModelInfer"))
        self._at_once: dict[str, AtOnce] = {
            f"{INFER}ServerLive": self._server_live,
            f"{INFER}ServerReady": self._server_ready,
            f"{INFER}ServerMetadata": self._server_metadata,
            f"{HEALTH}Check": self._check,
        }
        self._streams: dict[str, Callable[[Stream], Awaitable[None]]] = {
            f"{INFER}ModelStreamInfer": self._stream_infer,
            f"{HEALTH}Watch": self._watch,
        }
        if with_reflection:
            self._streams |= {f"/{name}/ServerReflectionInfo": self._reflect for name in grpc_reflection.SERVICE_NAMES}
        self._threaded = {
            f"{INFER}{method.name}": Threaded(
                service.work(method), load_seconds if method.name in LOADING else allowed_seconds
            )
            for method in grpc_messages.methods_of(grpc_messages.INFERENCE_SERVICE)
            if f"{INFER}{method.name}" not in {*self._at_once, *self._streams}
        }

    def add(self, service: str, works: Mapping[str, Work]) -> None:
        """Add a service; ``works`` answer its methods in threads."""
        for name, work in works.items():
            self._threaded[f"/{service}/{name}"] = Threaded(work, self._allowed_seconds)

    def renew(self) -> None:
        """End the streams, as nginx replaces its workers, or stops. They answer the received messages first."""
        self._account.renew(RENEWED)

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()

    async def unary(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a unary call: an ASGI app."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        call = Call(scope["method"], scope["path"], headers)
        incoming = Incoming(self._account, _chunks(receive), call.headers.get("grpc-encoding"), is_stream=False)
        try:
            own_headers, data = await self._answer(call, incoming, receive)
        except ClientDisconnected:
            return
        start = [_TYPE, ("content-length", str(len(data))), *own_headers]
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in start]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        await send({"type": "http.response.body", "body": data})

    async def _answer(self, call: Call, incoming: Incoming, receive: Receive) -> tuple[list[Header], bytes]:
        """Return the final headers of a call, and its framed response."""
        try:
            with self._account.open(incoming):
                call.check()
                if call.route not in self._threaded and call.route not in self._at_once:
                    raise Unimplemented(f"there is no method {call.route[:200]} that takes one message")
                data = await incoming.only_message()
            if (respond := self._at_once.get(call.route)) is not None:
                incoming.release()
                return [(GRPC_STATUS, "0")], framed(await respond(data))
        except ClientDisconnected:
            incoming.drop()
            raise
        except Exception as error:
            return self._refused(call, incoming, error), b""
        method = self._threaded[call.route]
        caller = call.caller(method.allowed_seconds)
        response = asyncio.ensure_future(self._pool.answer(call.route, data, caller, method.work, incoming.lend()))
        del data
        gone = asyncio.ensure_future(receive())
        await asyncio.wait((response, gone), return_when=asyncio.FIRST_COMPLETED)
        if not response.done():
            response.cancel()
            raise ClientDisconnected("the caller has disconnected")
        gone.cancel()
        return _ending(response.result(), caller)

    async def stream(self, connection: StreamConnection) -> None:
        """Answer a stream."""
        call = Call(connection.headers[":method"], connection.path, connection.headers)
        incoming = Incoming(self._account, connection.chunk, call.headers.get("grpc-encoding"), is_stream=True)
        await connection.start([_TYPE])
        ending = [(GRPC_STATUS, "0")]
        try:
            with self._account.open(incoming):
                call.check()
                if (respond := self._streams.get(call.route)) is None:
                    raise Unimplemented(f"there is no method {call.route[:200]} that takes a stream")
                await respond(Stream(call, incoming, connection))
        except Exception as error:
            ending = self._refused(call, incoming, error)
        finally:
            incoming.drop()
        await connection.end(ending)

    def _refused(self, call: Call, incoming: Incoming, error: Exception) -> list[Header]:
        incoming.drop()
        caller = call.caller(self._allowed_seconds)
        ours = error if isinstance(error, LightboxError) else as_lightbox_error(error, caller.request_id)
        ours.__traceback__ = None  # its frames would keep the message until the next collection of cycles
        known = call.route in {*self._threaded, *self._at_once, *self._streams}
        outcome = self._pool.report_refused(call.route if known else UNMATCHED, caller, incoming.came, ours)
        return _ending(outcome, caller)[0]

    async def _server_live(self, data: bytes) -> bytes:
        return _written("inference.ServerLiveResponse", live=True)

    async def _server_ready(self, data: bytes) -> bytes:
        return _written("inference.ServerReadyResponse", ready=await self._readiness.is_ready())

    async def _server_metadata(self, data: bytes) -> bytes:
        return _written("inference.ServerMetadataResponse", **DataPlane.server_metadata())

    async def _check(self, data: bytes) -> bytes:
        service = _health_service(data)
        status = await self._readiness.status(service)
        if status is None:
            raise RouteNotFound(f"there is no service {service[:100]!r}")
        return _written(HEALTH_RESPONSE, status=status)

    async def _watch(self, stream: Stream) -> None:
        incoming = stream.incoming
        service, last = _health_service(await incoming.only_message()), None
        while True:
            status = last
            with suppress(Unavailable), incoming.waits():  # a watcher makes room for other calls at any time
                if last is not None:
                    await asyncio.sleep(WATCH_SECONDS)
                status = await self._readiness.status(service, WATCH_SECONDS) or SERVICE_UNKNOWN
            if incoming.error is not None:
                status = await self._readiness.status(service) or SERVICE_UNKNOWN
            if status != last:
                await stream.send(_written(HEALTH_RESPONSE, status=status))
            if incoming.error is not None:
                raise incoming.error
            last = status

    async def _reflect(self, stream: Stream) -> None:
        while (data := await stream.incoming.message()) is not None:
            await stream.send(grpc_reflection.answer(data))

    async def _stream_infer(self, stream: Stream) -> None:
        """Answer one request after another; an error is the response to its request, and the stream goes on."""
        route, incoming = stream.call.route, stream.incoming
        while True:
            try:
                data = await incoming.message()
            except TooLargeMessage as error:
                outcome = self._pool.report_refused(route, stream.call.caller(0), incoming.came, error)
                data = error.head
            else:
                if data is None:
                    return
                caller = stream.call.caller(self._allowed_seconds)
                outcome = await self._pool.answer(route, data, caller, self._infer, incoming.lend())
            response = stream_response(data, outcome)
            del data, outcome  # while the caller reads
            await stream.send(response)


@dataclass(frozen=True)
class Call:
    """HTTP's method, the path ``/service/method``, and the caller's headers."""

    method: str
    route: str
    headers: Mapping[str, str]
    began: float = field(default_factory=time.perf_counter)

    def check(self) -> None:
        """Raise Unimplemented and UnsupportedMediaType unless it is a gRPC call."""
        if self.method != "POST":
            raise Unimplemented(f"expected POST, got {self.method[:100]}")
        if not (given := self.headers.get("content-type", "")).startswith("application/grpc"):
            raise UnsupportedMediaType(f"Content-Type: expected application/grpc, got {given[:100]!r}")

    def caller(self, allowed_seconds: float) -> Caller:
        """Return the caller for the pool, with a complete message."""
        return Caller(self.headers, allowed_seconds, self.began)


@dataclass(frozen=True)
class Stream:
    """An open stream: its call, its incoming messages and its connection."""

    call: Call
    incoming: Incoming
    connection: StreamConnection

    async def send(self, message: bytes) -> None:
        """Send a message as fast as the caller reads; it counts meanwhile. Raises Unavailable."""
        self.incoming.release(len(message))
        with self.incoming.waits():
            await self.connection.send(framed(message))
        self.incoming.release()


def framed(message: bytes) -> bytes:
    """Return a message in gRPC's framing, not compressed."""
    return b"\0" + len(message).to_bytes(PREFIX - 1, "big") + message


def _chunks(receive: Receive) -> Chunks:
    """Return the function that reads the body of an ASGI request."""
    more = True

    async def chunk() -> bytes:
        nonlocal more
        result = b""
        while more and not result:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise ClientDisconnected("the caller has disconnected")
            result, more = event["body"], event.get("more_body", False)
        return result

    return chunk


def _ending(outcome: Outcome, caller: Caller) -> tuple[list[Header], bytes]:
    """Return the final headers of a call, and its framed response."""
    timing = (SERVER_TIMING.lower(), outcome.context.server_timing())
    if outcome.error is not None:
        return [*grpc_trailers(outcome.error, caller.request_id), timing], b""
    headers = [(GRPC_STATUS, "0"), (REQUEST_ID_HEADER.lower(), caller.request_id), timing]
    if (model := outcome.context.answered_by) is not None:
        headers.append((MODEL_HEADER.lower(), model))
    return headers, framed(outcome.data)


def _written(message: str, **fields: Any) -> bytes:
    return bytes(grpc_messages.message_class(message)(**fields).SerializeToString())


def _health_service(data: bytes) -> str:
    try:
        return str(grpc_messages.message_class("grpc.health.v1.HealthCheckRequest").FromString(data).service)
    except DecodeError as error:
        raise MalformedBody(f"the message is no HealthCheckRequest: {error}") from None


def stream_response(data: bytes, outcome: Outcome) -> bytes:
    """Return a stream's response to a request: the result, or the error with the request's id."""
    response = grpc_messages.ModelStreamInferResponse()
    if outcome.error is None:
        response.infer_response.MergeFromString(outcome.data)
    else:
        response.error_message = outcome.error.message
        response.infer_response.id = _id_of(data)
    return bytes(response.SerializeToString())


def _id_of(data: bytes) -> str:
    """Return a request's id, "" unless it is among the first few fields, where ordered writers have it."""
    with suppress(ValueError):
        for number, kind, value in islice(read_fields(memoryview(data)), _FIRST_FIELDS):
            if number == _ID and kind == LENGTH_DELIMITED:
                return str(value, "utf-8")
    return ""
