"""Requests to a model server's REST port as bytes, as a client of one's own writes them."""

from __future__ import annotations

import socket

from support.model_server import ModelServer
from support.patience import PATIENCE

PREDICT = "/v1/models/half_plus_two:predict"
BODY = b'{"instances":[1.0]}'
ANSWER = b'{"predictions":[3.5]}'


def connect(server: ModelServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.rest_port), PATIENCE)


def exchange(server: ModelServer, data: bytes) -> bytes:
    """Send bytes, then read until the server closes the connection, on its own or because ``data`` requests it."""
    with connect(server) as sock:
        sock.sendall(data)
        received = b""
        while piece := sock.recv(1 << 16):
            received += piece
    return received


def request(body: bytes = BODY, *lines: str, method: str = "POST", path: str = PREDICT) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
