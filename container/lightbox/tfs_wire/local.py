"""The local wire: Predict over a unix socket, between the sidecar and the embedded model server.

    server, once for a connection   GREETING
    client, for each call           ASK: bytes of the message, seconds that the caller waits; then the PredictRequest
    server, for each call           TOLD: code, bytes of the message; then the PredictResponse, or an error's text

A connection carries one call at a time. Who breaks a call off closes the connection.
"""

from __future__ import annotations

import socket
import struct

GREETING = b"LBWIRE01"
"""Tells that a thread serves the connection, and which form the messages have."""
ASK, TOLD = struct.Struct("<Qd"), struct.Struct("<qQ")
MAX_REQUEST_BYTES = 2**31 - 1
"""As over gRPC, and the most that protobuf reads."""


def receive(connection: socket.socket, size: int) -> bytearray:
    """Return the next ``size`` bytes. Raises EOFError where the connection ends before, and what sockets raise."""
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:], 0, socket.MSG_WAITALL)
        if not count:
            raise EOFError(f"the connection ended after {got} of {size} bytes")
        got += count
    return data
