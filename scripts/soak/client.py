"""A client that speaks HTTP, gRPC and WebSocket, as each request wants it."""

from __future__ import annotations

from soak import infer, streams
from soak.exchange import Caller, Outcome, Request


class Client:
    """Connections to nginx and to the gRPC front, and streams, kept alive between requests if ``keep``."""

    def __init__(self, port: int, front: str, keep: bool) -> None:
        self._http = Caller(port, keep)
        self._grpc = infer.InferCaller(front, keep)
        self._frames = streams.FrameCaller(port, keep)

    def send(self, request: Request) -> Outcome:
        """Send a request and read its whole answer."""
        if request.path.startswith(streams.ROUTE):
            return self._frames.send(request)
        return self._grpc.send(request) if request.path == infer.PATH else self._http.send(request)

    def close(self) -> None:
        """Close all connections."""
        self._frames.close()
        self._http.close()
        self._grpc.close()
