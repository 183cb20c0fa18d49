"""A client of the model server's gRPC port that sends handcrafted frames."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import grpc

from lightbox.model_runtime.wire.messages import get_model_status_pb2
from support.model_server import ModelServer
from support.patience import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MB = 1 << 20


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS, PING, HEADERS, WINDOW_UPDATE = frame(4), frame(6, bytes(8)), 1, 8


def status(server: ModelServer, **options: object) -> str:
    """Request a model's state; return the name of the status."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "half_plus_two"
    with grpc.insecure_channel(server.grpc_address, [("grpc.max_metadata_size", 64 * MB)]) as channel:
        method = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        try:
            method(request.SerializeToString(), timeout=PATIENCE, **options)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def send_all(server: ModelServer, data: bytes) -> bytes:
    """Send bytes, even if the server closes early; return its reply."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.grpc_port), timeout=PATIENCE) as client:
        client.settimeout(None)  # a timeout would apply to all of sendall
        with suppress(ConnectionError):
            client.sendall(data)
        try:
            client.shutdown(socket.SHUT_WR)
        except OSError as error:  # the server has reset the connection
            assert error.errno == errno.ENOTCONN
        with suppress(ConnectionError):
            while piece := client.recv(1 << 16):  # including data from before a reset
                received += piece
    return received
