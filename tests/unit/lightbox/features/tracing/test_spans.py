"""Traces: spans of requests and stages, between the caller's trace and the model server's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import HTTPServer
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from urllib3 import HTTPConnectionPool

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import FinishedRequest
from lightbox.features.tracing.spans import Spans
from lightbox.model.spec import ModelCall
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.rest import RestTransport
from support.fakes import signature
from support.http_server import QuietHandler
from support.patience import PATIENCE

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b"}
CALL = ModelCall(
    signature("net", {"x": ("float32", (None,))}, {"y": ("float32", (None,))}), {"x": np.ones(1, "f4")}, ()
)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Spans:
    return Spans(exporter)


def spans(traces: Spans, exporter: InMemorySpanExporter) -> dict[str, Any]:
    traces.provider.force_flush()
    return {span.name: span for span in exporter.get_finished_spans()}


def finish(traces: Spans, context: RequestContext, status: int = 200, code: str | None = None) -> None:
    traces.responded(FinishedRequest("id-1", "POST", "/x", "/invocations", status, 1, 2, code, context))


def test_stages_are_below_the_request_and_that_below_the_caller(traces: Spans, exporter: InMemorySpanExporter) -> None:
    context = traces.context(PATIENCE, HEADERS.get)
    context.model, context.transport = "net", "grpc"
    with context.stage("decode"):
        pass
    with context.stage("predict"):
        pass
    finish(traces, context)
    found = spans(traces, exporter)
    request = found["POST /invocations"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == PARENT
    assert (request.attributes["lightbox.model"], request.attributes["http.response.status_code"]) == ("net", 200)
    assert {found[name].parent.span_id for name in ("decode", "predict")} == {request.context.span_id}
    assert context.outgoing["traceparent"] == f"00-{TRACE}-{found['predict'].context.span_id:016x}-01"
    assert context.outgoing["tracestate"] == "a=b"
    assert context.stages.keys() == {"decode", "predict"}


def test_a_request_without_a_trace_begins_one(traces: Spans, exporter: InMemorySpanExporter) -> None:
    finish(traces, traces.context(PATIENCE, {"traceparent": "nonsense"}.get), 503, "unavailable")
    request = spans(traces, exporter)["POST /invocations"]
    assert request.parent is None
    assert (request.attributes["error.type"], request.status.is_ok) == ("unavailable", False)


def test_grpc_carries_the_trace_on(traces: Spans) -> None:
    seen: list[dict[str, str]] = []

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            seen.append(dict(details.invocation_metadata))

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    transport = GrpcTransport(f"127.0.0.1:{port}")
    try:
        check_carried(transport.predict, traces, seen)
        assert "traceparent" not in seen[-1]
    finally:
        transport.close()
        server.stop(None).wait()


def test_rest_carries_the_trace_on(traces: Spans) -> None:
    seen: list[dict[str, str]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_error(500)

    with HTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        transport = RestTransport(HTTPConnectionPool("127.0.0.1", server.server_address[1]))
        try:
            check_carried(transport.predict, traces, seen)
            assert "traceparent" not in seen[-1]
        finally:
            transport.close()
            server.shutdown()


def check_carried(predict: Callable[..., Any], traces: Spans, seen: list[dict[str, str]]) -> None:
    """Predict with a traced context, then with a plain one. The servers here answer with errors."""
    context = traces.context(PATIENCE, HEADERS.get)
    with pytest.raises(LightboxError):
        predict(CALL, context)
    assert seen[-1]["traceparent"] == context.outgoing["traceparent"]
    assert seen[-1]["traceparent"].startswith(f"00-{TRACE}-")
    with pytest.raises(LightboxError):
        predict(CALL, RequestContext(PATIENCE))
