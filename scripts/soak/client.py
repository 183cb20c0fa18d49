"""A client that speaks HTTP and gRPC, as each request wants it."""

from __future__ import annotations

from soak import infer
from soak.exchange import Caller, Outcome, Request


class Client:
    """Connections to nginx and to the gRPC front, kept alive between requests if ``keep``."""

    def __init__(self, port: int, front: str, keep: bool) -> None:
        self._http = Caller(port, keep)
        self._grpc = infer.InferCaller(front, keep)

    def send(self, request: Request) -> Outcome:
        """Send a request and read its whole answer."""
        return self._grpc.send(request) if request.path == infer.PATH else self._http.send(request)

    def close(self) -> None:
        """Close both connections."""
        self._http.close()
        self._grpc.close()
