"""The process that speaks gRPC to callers: ``python -m lightbox.grpc_front PLAN HEALTH``.

It is a worker like gunicorn's, with the same pipeline; the supervisor starts and drains it.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
import threading
from pathlib import Path

from lightbox.app import assemble
from lightbox.protocols.kserve_grpc import Front, InferenceService

HEALTH_SECONDS = 2.0


def main(plan_path: str, health: str) -> int:
    """Serve until SIGTERM, then finish what has been accepted; ``health`` is where the supervisor answers /ping."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    parts = assemble(Path(plan_path))
    settings = parts.settings

    def is_ready() -> bool:
        return not stopping.is_set() and ping(health)

    front = Front(
        InferenceService(parts.pipeline, parts.repository, is_ready),
        is_ready,
        settings.deadline_seconds,
        threads=settings.workers * settings.threads,
        max_bytes=settings.max_body_mb << 20,
    )
    front.server.add_insecure_port(f"[::]:{settings.kserve_grpc_port}")
    front.server.start()
    gc.collect()
    gc.freeze()  # as in gunicorn's workers
    stopping.wait()
    front.stop(settings.drain_seconds)
    return 0


def ping(health: str) -> bool:
    """Tell whether the supervisor answers /ping with 200, at ``unix:/path`` or ``host:port``."""
    try:
        with _connect(health) as connection:
            connection.settimeout(HEALTH_SECONDS)
            connection.sendall(b"GET /ping HTTP/1.1\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def _connect(address: str) -> socket.socket:
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), HEALTH_SECONDS)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address.removeprefix("unix:"))
    except OSError:
        connection.close()
        raise
    return connection


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
