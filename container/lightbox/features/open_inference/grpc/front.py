"""The process that answers gRPC calls forwarded by nginx.

It is a worker like gunicorn's, with the same pipeline. The supervisor starts it, and stops it after nginx.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Callable, Sequence

from uvicorn.config import Config
from uvicorn.server import ServerState

from lightbox.base.machine import local_sockets
from lightbox.base.telemetry.logs import context_maker
from lightbox.core.feature import Feature, Front
from lightbox.core.services import Services
from lightbox.features.open_inference import RENEW_SIGNAL
from lightbox.features.open_inference.dataplane import DataPlane
from lightbox.features.open_inference.grpc.asgi import InferenceServer
from lightbox.features.open_inference.grpc.calls import WorkerPool
from lightbox.features.open_inference.grpc.health_service import Readiness, ping
from lightbox.features.open_inference.grpc.http2 import StreamConnection
from lightbox.features.open_inference.grpc.incoming import Account, Bounds
from lightbox.features.open_inference.grpc.servicer import InferenceService

AT_ONCE = 64
"""Connections that are accepted before others are read."""
KEEPALIVE_SECONDS = 75
"""Longer than nginx keeps idle connections, so that no call meets a closing one."""


def main(front: Front, health: str, calls: str, streams: str) -> None:
    """Serve until SIGTERM; ``health`` is the supervisor's address with /ping.

    nginx sends unary calls to ``calls`` and streams to ``streams``. RENEW_SIGNAL ends the streams.
    """
    asyncio.run(serve(front.assemble("grpc_front"), front.features, health, calls, streams))


async def serve(services: Services, features: Sequence[Feature], health: str, calls: str, streams: str) -> None:
    """Run the server until a stop signal: by then nginx has ended, and every call is answered."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    server = make_server(services, features, health)
    loop.add_signal_handler(RENEW_SIGNAL, server.renew)
    listeners = await listen(server, calls, streams)
    gc.collect()
    gc.freeze()  # as in gunicorn's workers
    await stopping.wait()
    for listener in listeners:
        listener.close()
    server.close()


def make_server(services: Services, features: Sequence[Feature], health: str) -> InferenceServer:
    """Return the server of the protocol and of the features' services. Belongs to the running event loop."""
    settings, allowed = services.settings, services.pipeline.allowed_seconds
    names, most = services.model_names, services.plan.most_requests(settings)
    pool = WorkerPool(
        services.shares(settings.slots, most),
        most,
        settings.nginx_read_timeout - allowed,
        services.observers,
        context_maker(services.observers),
        services.requests,
        None if names is None else names.of_message,
    )
    added = [feature.grpc(services) for feature in features]
    message = settings.max_body_mb << 20
    server = InferenceServer(
        InferenceService(DataPlane(services.pipeline, services.run_dir)),
        pool,
        Readiness(lambda: ping(health), [name for service in added for name in service.health]),
        Account(Bounds(message, together=2 * message)),
        allowed,
        settings.load_seconds,
        any(feature.describes for feature in features),
    )
    for grpc_services in added:
        for service, works in grpc_services.works.items():
            server.add(service, works)
    return server


async def listen(server: InferenceServer, calls: str, streams: str) -> list[asyncio.Server]:
    """Take unary calls and streams at ``unix:/path`` or ``host:port``."""
    # Not uvicorn's own Server: it handles the signals, and at a stop closes connections that nginx may be using.
    config = Config(
        server.unary,
        interface="asgi3",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEPALIVE_SECONDS,
    )
    config.load()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # nginx reports the requests that its parser refuses
    state = ServerState()
    return [
        await _listen_at(streams, lambda: StreamConnection(server.stream)),
        await _listen_at(calls, lambda: config.http_protocol_class(config=config, server_state=state, app_state={})),
    ]


async def _listen_at(address: str, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    listener = local_sockets.listen(address)
    server = await asyncio.get_running_loop().create_server(protocol, sock=listener, backlog=AT_ONCE)
    listener.listen(local_sockets.QUEUE)
    return server
