"""HTTP connections to a model server: over its port or its socket, with the headers of the request's trace."""

from __future__ import annotations

import socketserver
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lightbox.base.request_context import RequestContext
from lightbox.model.plan import ModelServerAddress
from lightbox.transports.rest_connections import exchange, rest_connections
from support.http_server import QuietHandler
from support.patience import PATIENCE
from support.stack import free_port


class Handler(QuietHandler):
    def address_string(self) -> str:
        return ""  # a socket's caller has no address

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])) + self.headers["traceparent"].encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("by_socket", [True, False])
def test_a_request_is_answered_and_a_server_that_is_away_is_none(tmp_path: Path, by_socket: bool) -> None:
    context = RequestContext(PATIENCE)
    context.outgoing["traceparent"] = "with a trace"
    socket_path, port = tmp_path / "s", free_port()
    address = ModelServerAddress(
        grpc_socket=Path("none"), rest_port=port, rest_socket=socket_path if by_socket else None
    )
    server: socketserver.BaseServer = (
        socketserver.ThreadingUnixStreamServer(str(socket_path), Handler)
        if by_socket
        else ThreadingHTTPServer(("127.0.0.1", port), Handler)
    )
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        response = exchange(rest_connections(address, 1), "POST", "/", b"a body ", context)
        assert response is not None
        assert response.data == b"a body with a trace"
        server.shutdown()
    assert exchange(rest_connections(address, 1), "POST", "/", b"a body ", context) is None
