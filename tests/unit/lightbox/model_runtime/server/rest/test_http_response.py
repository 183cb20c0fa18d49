"""Send a response to a slow client."""

from __future__ import annotations

import random
import socket

from lightbox.model_runtime.server.rest.rest_server import Connection


def test_parts_arrive_in_order_however_little_the_socket_takes() -> None:
    dice = random.Random(3)
    parts = [dice.randbytes(size) for size in (100, 3_000_000, 1, 300_000)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection, received, waits = Connection(ours), bytearray(), 0
        connection.unsent = [memoryview(part) for part in parts]
        while connection.unsent:
            try:
                connection.send()
            except BlockingIOError:
                waits += 1
                received += theirs.recv(dice.choice([1, 10_000, 1_000_000]))
            assert connection.held <= sum(map(len, parts)) - len(received)
        ours.close()
        while data := theirs.recv(1 << 20):
            received += data
    assert received == b"".join(parts)
    assert waits
    assert not connection.held
