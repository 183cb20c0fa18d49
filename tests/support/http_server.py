"""Small HTTP servers, including one with test-defined POST responses."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

Answer = Callable[[bytes], tuple[int, bytes] | None]
"""Takes a body and returns status and body; None ends the connection without an answer."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # simultaneous connections succeed without a retry


class QuietHandler(BaseHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


class EmptyPage(QuietHandler):
    """Answers each GET with ``status`` and an empty body."""

    protocol_version = "HTTP/1.1"
    status = 200

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(self.status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler],
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    path: Path | None = None,
) -> Iterator[str]:
    """Serve on an address of this machine, a free port unless given, or at a unix socket; yield a port's URL."""
    with Server((host, port), handler) if path is None else ThreadingUnixStreamServer(str(path), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://{host}:{server.server_port}" if isinstance(server, Server) else ""
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering_posts(answer: Answer, port: int = 0, path: Path | None = None) -> Iterator[str]:
    """Serve on a port of the loopback interface, a free one unless given, or at a unix socket; yield the URL."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            answered = answer(self.rfile.read(int(self.headers["Content-Length"])))
            if answered is None:
                return
            status, body = answered
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler, port=port, path=path) as url:
        yield url
