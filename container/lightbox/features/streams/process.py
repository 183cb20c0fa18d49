"""The process that holds streams of frames.

It has no pipeline: each frame is a request to nginx. The supervisor starts it if LIGHTBOX_STREAMS is on.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
from pathlib import Path

from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log_like_others, worker_descriptor
from lightbox.core.feature import Front
from lightbox.features.streams import RENEW_SIGNAL, counters
from lightbox.features.streams.forwarding import Relay
from lightbox.features.streams.sockets import StreamServer

PATIENCE = 5
"""Seconds beyond nginx's own timeout, so that nginx reports it."""
MAX_STREAMS = 1000


def main(front: Front, address: str, frames: str, most_bytes: str, run_dir: str) -> None:
    """Serve streams at ``unix:/path`` or ``host:port`` until SIGTERM; then finish the accepted frames.

    RENEW_SIGNAL ends the open streams in the same way. nginx accepts their frames at ``frames``. Streams hold at most
    ``most_bytes`` together, and are counted in ``run_dir``.
    """
    route = next(path for feature in front.features for path in feature.direct)
    relay = Relay(frames, route, front.settings.most_requests, front.settings.nginx_read_timeout + PATIENCE)
    asyncio.run(serve(front.settings, address, relay, int(most_bytes), Path(run_dir)))


async def serve(settings: Settings, address: str, relay: Relay, most_bytes: int, run_dir: Path) -> None:
    """Run the server until a stop signal has come and every accepted frame is answered."""
    log_like_others(settings.gunicorn_loglevel, settings.log_format == "json", worker_descriptor(), "streams")
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    frame = settings.max_body_mb << 20
    server = StreamServer(relay, MAX_STREAMS, frame, max(most_bytes, 2 * frame), counters(run_dir).row())
    asyncio.get_running_loop().add_signal_handler(RENEW_SIGNAL, server.renew)
    listener = await server.listen(address)
    watching = asyncio.create_task(server.watch())
    gc.collect()
    gc.freeze()  # as in gunicorn's workers
    await stopping.wait()
    listener.close(close_connections=False)
    await server.stop()
    watching.cancel()
    relay.close()
