"""What goes out to a client that reads slowly."""

from __future__ import annotations

import random
import socket

import pytest

from model_server.http_response import Outgoing, Response, serialize


def test_parts_arrive_in_order_however_little_the_socket_takes() -> None:
    dice = random.Random(3)
    parts = [dice.randbytes(dice.choice([0, 1, 100, 300_000])) for _ in range(200)]
    wanted = b"".join(parts)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outgoing, received, waits = Outgoing(parts), bytearray(), 0
        while outgoing:
            try:
                outgoing.send(ours)
            except BlockingIOError:
                waits += 1
                received += theirs.recv(dice.choice([1, 10_000, 1_000_000]))
        ours.close()
        while data := theirs.recv(1 << 20):
            received += data
    assert received == wanted
    assert waits


def test_nothing_is_nothing_to_send() -> None:
    assert not Outgoing()
    assert not Outgoing([b"", b""])


def test_a_closed_connection_is_told() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(OSError, match="Broken pipe"):
        Outgoing([b"x"]).send(ours)


def test_the_length_is_that_of_all_parts() -> None:
    (head, *body), keep = serialize(None, Response(200, [b"ab", b"c"]))
    assert b"Content-Length: 3\r\n" in head
    assert body == [b"ab", b"c"]
    assert not keep
