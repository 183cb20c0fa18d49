"""The gRPC server: ports, limits and threads."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import grpc

from lightbox.model_runtime.server.flags import Options
from lightbox.model_runtime.server.grpc.protos import SSLConfig
from lightbox.model_runtime.server.model_config import read_text_proto
from lightbox.model_runtime.server.rest.http_server import LOOPBACK
from lightbox.model_runtime.wire.status import StatusError, invalid

log = logging.getLogger(__name__)

_LARGEST_PORT = 65535
_WAITING_CALLS = 8
# Larger HTTP/2 frames and windows were measured: no gain on the loopback interface.
_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", 2**31 - 1),
    ("grpc.max_send_message_length", -1),
]


def channel_arguments(text: str) -> list[tuple[str, int | str]]:
    """Return the pairs in "name=value,..."; whole numbers become int, text without "=" is ignored."""
    pairs: list[tuple[str, int | str]] = []
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if equals:
            pairs.append((name, int(value) if value.lstrip("-").isdigit() else value))
    return pairs


def most_calls(threads: int) -> int:
    """Return how many calls may run or wait with ``threads`` threads."""
    return max(1, threads) + max(_WAITING_CALLS, threads)


def create(handlers: list[grpc.GenericRpcHandler], threads: int, arguments: list[tuple[str, int | str]]) -> grpc.Server:
    """Return a server without a port that runs ``threads`` calls at once.

    A few more may wait; further calls get RESOURCE_EXHAUSTED. (tensorflow_model_server refuses at once. Here a call
    counts until its client has the response, so that as many clients as threads need some room.)
    """
    return grpc.server(
        ThreadPoolExecutor(max(1, threads), "grpc"),
        handlers=handlers,
        options=[*_OPTIONS, *arguments],
        maximum_concurrent_rpcs=most_calls(threads),
    )


def bind(
    server: grpc.Server, host: str, port: int, socket_path: str, credentials: grpc.ServerCredentials | None
) -> None:
    """Listen on the port of ``host`` and the socket; raise StatusError for an unavailable address."""

    def add(address: str) -> bool:
        try:
            if credentials is not None and not address.startswith("unix:"):
                return bool(server.add_secure_port(address, credentials))
            return bool(server.add_insecure_port(address))
        except RuntimeError:
            return False

    if port > _LARGEST_PORT:
        log.warning("gRPC port %d does not exist; no gRPC over TCP", port)
    elif port and not add(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"):
        raise start_error()
    elif port and host == LOOPBACK and not add(f"[::1]:{port}"):
        log.debug("no IPv6 loopback")
    if socket_path and not add(f"unix:{socket_path}"):
        raise start_error()


def start_error() -> StatusError:
    """Return tensorflow_model_server's single text for a failure to listen."""
    return invalid("Failed to BuildAndStart gRPC server")


def credentials(options: Options) -> grpc.ServerCredentials | None:
    """Return the TLS side of the gRPC server, None for plain text."""
    if not options.ssl_config_file:
        return None
    config = read_text_proto(options.ssl_config_file, SSLConfig())
    pair = (config.server_key.encode(), config.server_cert.encode())
    roots = config.custom_ca.encode() or None
    return grpc.ssl_server_credentials([pair], roots, config.client_verify and roots is not None)
