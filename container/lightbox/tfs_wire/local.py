"""The local wire: Predict over a unix socket, between the sidecar and the embedded model server.

    server, once for a connection   GREETING
    client, once for a connection   one byte, and with it the descriptor of a memory that both map
    client, for each call           ASK: where the PredictRequest begins in the memory, its bytes, seconds that the
                                    caller waits; one that the memory is too small for follows
    server, for each call           TOLD: code, bytes of the message; then the PredictResponse, or an error's text

A connection carries one call at a time. Who breaks a call off closes the connection, and its memory goes with it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct

GREETING = b"LBWIRE02"
"""Tells that a thread serves the connection, and which form the messages have."""
REQUEST_HEADER, RESPONSE_HEADER = struct.Struct("<QQd"), struct.Struct("<qQ")
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


def share(connection: socket.socket, size: int) -> mmap.mmap:
    """Return a memory of ``size`` bytes that the server maps too; raise OSError where there is none to be had.

    Its pages are taken now: where there is no room, writing to them later would end the process.
    """
    descriptor = os.memfd_create("local wire", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        memory = mmap.mmap(descriptor, size)
        socket.send_fds(connection, [b"\0"], [descriptor])
        return memory
    finally:
        os.close(descriptor)


def shared(connection: socket.socket) -> memoryview:
    """Return the client's memory, to read. Raises EOFError where none comes, and OSError for what is none."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise EOFError("the client has shared no memory")
    try:
        sealed = fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or not os.fstat(descriptors[0]).st_size:
            raise EOFError("the client's memory is empty, or could shrink, which would end who reads it")
        return memoryview(mmap.mmap(descriptors[0], 0, prot=mmap.PROT_READ))
    finally:
        os.close(descriptors[0])
