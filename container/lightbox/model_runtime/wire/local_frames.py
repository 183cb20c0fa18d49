"""The local transport: Predict over a unix socket, between the sidecar and the embedded model server.

    server, once for a connection   GREETING
    client, once for a connection   one byte, and with it the descriptor of a memory that both map
    client, for each call           REQUEST_HEADER: offset of the PredictRequest in the memory, its bytes, the
                                    caller's remaining seconds; a request larger than the memory follows
    server, for each call           RESPONSE_HEADER: code, bytes of the message; the PredictResponse, or an error's
                                    text, follows

A connection carries one call at a time. A caller that aborts a call closes the connection, which frees its memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct

GREETING = b"LBWIRE02"
"""Sent when a thread serves the connection; its bytes identify the form of the messages."""
REQUEST_HEADER, RESPONSE_HEADER = struct.Struct("<QQd"), struct.Struct("<qQ")
MAX_REQUEST_BYTES = 2**31 - 1
"""The limit of gRPC and protobuf."""


def receive(connection: socket.socket, size: int) -> bytearray:
    """Return the next ``size`` bytes. Raises EOFError if the connection ends first, and as sockets do."""
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:], 0, socket.MSG_WAITALL)
        if not count:
            raise EOFError(f"the connection ended after {got} of {size} bytes")
        got += count
    return data


def share(connection: socket.socket, size: int) -> mmap.mmap:
    """Return a memory of ``size`` bytes that the server maps too; raise OSError if there is none.

    Its pages are allocated now: a later write without a free page would crash the process.
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
    """Return the client's memory for reading. Raises EOFError if none comes, and OSError for an invalid one."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise EOFError("the client has shared no memory")
    try:
        sealed = fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or not os.fstat(descriptors[0]).st_size:
            raise EOFError("the client's memory is empty, or could shrink, which would crash the server")
        return memoryview(mmap.mmap(descriptors[0], 0, prot=mmap.PROT_READ))
    finally:
        os.close(descriptors[0])
