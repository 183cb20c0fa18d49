"""Where a running server is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """HTTP on loopback; ``grpc`` is a gRPC target, of a stack that of the model server inside it.

    ``front`` is where a stack speaks the Open Inference Protocol over gRPC, "" where it does not.
    """

    port: int
    grpc: str = ""
    front: str = ""
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Base address of the HTTP side."""
        return f"http://{self.host}:{self.port}"
