"""Hostile gRPC clients of the model server: endless pings, metadata, streams and connections."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import psutil
import pytest

from support.hostile_grpc import MB, PING, PREFACE, SETTINGS, WINDOW_UPDATE, frame, send_all, status
from support.model_server import ModelServer
from support.patience import PATIENCE


# gRPC takes longer for each ping as unacknowledged pings pile up: 200,000 would take a minute of processor time.
@pytest.mark.extended
@pytest.mark.parametrize(
    ("flood", "most"),
    [
        (PING * 40_000, 64 * MB // 5),
        (SETTINGS * 100_000, 64 * MB),
        (frame(WINDOW_UPDATE, b"\0\0\0\1") * 200_000, 64 * MB),
        (bytes(4 * MB), 64 * MB),
    ],
    ids=["pings", "settings", "windows", "zeros"],
)
def test_floods_of_frames(recorded_server: ModelServer, flood: bytes, most: int) -> None:
    process = psutil.Process(recorded_server.process.pid)
    before = process.memory_info().rss
    send_all(recorded_server, PREFACE + SETTINGS + flood)
    assert status(recorded_server) == "OK"
    assert process.memory_info().rss - before < most


def test_who_pings_without_end_is_sent_away(recorded_server: ModelServer) -> None:
    received = send_all(recorded_server, PREFACE + SETTINGS + PING * 10_000)
    assert b"too_many_pings" in received


@pytest.mark.parametrize("size", [20_000, 1 * MB, 8 * MB])
def test_metadata_without_end(recorded_server: ModelServer, size: int) -> None:
    process = psutil.Process(recorded_server.process.pid)
    before = process.memory_info().rss
    assert status(recorded_server, metadata=[("x-long", "a" * size)]) in ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
    assert status(recorded_server, metadata=[(f"x-{number}", "a") for number in range(20_000)]) != "OK"
    assert status(recorded_server) == "OK"
    assert process.memory_info().rss - before < 64 * MB


def test_many_connections_that_say_nothing(recorded_server: ModelServer) -> None:
    with ExitStack() as open_:
        for _ in range(300):
            client = open_.enter_context(socket.create_connection(("127.0.0.1", recorded_server.grpc_port), PATIENCE))
            client.sendall(PREFACE[:7])
        assert status(recorded_server) == "OK"
        assert recorded_server.rest("GET", "/v1/models/half_plus_two")[0] == 200
