"""The process that speaks gRPC to callers.

It is a worker like gunicorn's, with the same pipeline; the supervisor starts and drains it.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import uuid
from collections.abc import Sequence
from contextlib import suppress

from lightbox.core.services import Services
from lightbox.feature import Feature, Front
from lightbox.features.open_inference import OpenInferenceSettings
from lightbox.features.open_inference.grpc_calls import WorkerPool
from lightbox.features.open_inference.grpc_gate import Bounds, Gate
from lightbox.features.open_inference.grpc_health import Readiness, ping
from lightbox.features.open_inference.grpc_server import ROOM, InferenceServer
from lightbox.features.open_inference.grpc_service import InferenceService
from lightbox.features.open_inference.repository import Repository
from lightbox.telemetry.logs import context_maker


def main(front: Front, health: str) -> None:
    """Serve until SIGTERM, then finish what has been accepted; ``health`` is where the supervisor answers /ping."""
    asyncio.run(serve(front.assemble("grpc_front"), front.features, health))


async def serve(services: Services, features: Sequence[Feature], health: str) -> None:
    """Run the server until a signal to stop has come and every call is answered."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    settings, allowed = services.settings, services.pipeline.allowed_seconds
    grpc_bytes = 2 * settings.max_body_mb << 20
    pool = WorkerPool(
        settings.slots,
        settings.workers * settings.max_waiting,
        settings.nginx_read_timeout - allowed,
        services.observers,
        context_maker(services.observers),
        grpc_bytes,
        services.requests,
    )
    added = [feature.grpc(services) for feature in features]
    server = InferenceServer(
        InferenceService(services.pipeline, Repository(services.pipeline, services.run_dir)),
        pool,
        Readiness(lambda: ping(health), stopping, [name for service in added for name in service.health]),
        allowed,
        settings.load_seconds,
        settings.max_body_mb << 20,
        any(feature.describes for feature in features),
    )
    for grpc_services in added:
        for service, works in grpc_services.works.items():
            server.add(service, works)
    name = f"lightbox-grpc-{uuid.uuid4().hex}"
    server.server.add_insecure_port(f"unix-abstract:{name}")
    await server.server.start()
    bounds = Bounds(message=ROOM * settings.max_body_mb << 20, together=grpc_bytes)
    gate = Gate(f"\0{name}", bounds, pool.report_refused)
    port = settings.of(OpenInferenceSettings).kserve_grpc_port
    assert port is not None, "the supervisor starts it for a port"
    await gate.listen(listener(port))
    gc.collect()
    gc.freeze()  # as in gunicorn's workers
    await stopping.wait()
    gate.close()
    await server.stop(settings.drain_seconds, gate)
    await gate.end()


def listener(port: int) -> socket.socket:
    """Return a socket that is bound to a port of all interfaces, of IPv6 too where there is any. Raises OSError."""
    with suppress(OSError):
        if socket.has_dualstack_ipv6():
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
