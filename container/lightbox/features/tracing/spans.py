"""The spans of requests and of their stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import FinishedRequest, Observer

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer


class Spans(Observer):
    """Makes the contexts of traced requests, and ends their spans. One instance per worker process.

    Without an ``exporter`` spans go to the environment's endpoint, as OTLP over HTTP.
    """

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "lightbox"}))
        self.provider = TracerProvider(resource=resource)
        self.provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self.provider.get_tracer("lightbox")

    def context(
        self, allowed_seconds: float, header: Callable[[str], str | None], waited: float = 0.0
    ) -> RequestContext:
        """Begin a request's span, below that of its ``traceparent``; ``header`` returns a header's value."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {name: value for name in ("traceparent", "tracestate") if (value := header(name)) is not None}
        return TracedContext(allowed_seconds, waited, self._tracer, TraceContextTextMapPropagator().extract(carrier))

    @override
    def responded(self, request: FinishedRequest) -> None:
        if isinstance(request.context, TracedContext):
            request.context.end(request)


class TracedContext(RequestContext):
    """A context whose stages are spans. The model call's span is passed to the model server."""

    def __init__(self, allowed_seconds: float, waited: float, tracer: Tracer, parent: Context) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        super().__init__(allowed_seconds, waited)
        self._tracer = tracer
        self._span = tracer.start_span("request", context=parent, kind=SpanKind.SERVER)
        self._context = set_span_in_context(self._span)

    @contextmanager
    @override
    def stage(self, name: str) -> Iterator[None]:
        from opentelemetry.trace import SpanKind

        kind = SpanKind.CLIENT if name == "predict" else SpanKind.INTERNAL
        # It records an exception that leaves the stage, and raises it again.
        with self._tracer.start_as_current_span(name, context=self._context, kind=kind) as span:
            if name == "predict":
                self._carry_on(span)
            with super().stage(name):
                yield

    def _carry_on(self, span: Span) -> None:
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.outgoing = {}
        TraceContextTextMapPropagator().inject(self.outgoing, set_span_in_context(span))

    def end(self, request: FinishedRequest) -> None:
        """End the request's span with its result."""
        from opentelemetry.trace import StatusCode

        self._span.update_name(f"{request.method} {request.route}")
        self._span.set_attributes(
            {
                "http.request.method": request.method,
                "http.route": request.route,
                "http.response.status_code": request.status,
                "lightbox.request_id": request.request_id,
                "lightbox.model": self.model or "",
                "lightbox.transport": self.transport or "",
            }
        )
        if request.error_code is not None:
            self._span.set_attribute("error.type", request.error_code)
        if request.status >= 500:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
