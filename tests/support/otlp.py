"""A minimal receiver of OTLP over HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.http_server import QuietHandler, serving


class Receiver:
    """The received spans and the names of the services that sent them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Any] = []
        self.services: set[str] = set()

    def take(self, body: bytes) -> None:
        """Record the spans of one export."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            self.services.add(named["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def of_trace(self, trace_id: str) -> dict[str, Any]:
        """Return the spans of one trace by name."""
        return {span.name: span for span in list(self.spans) if span.trace_id.hex() == trace_id}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port of the loopback interface."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            if self.path == "/v1/traces":
                receiver.take(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as url:
        receiver = Receiver(url)
        yield receiver
