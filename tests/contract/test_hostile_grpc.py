"""Hostile gRPC clients of the model server: pings, metadata, streams and connections without end."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

import grpc
import psutil
import pytest

from support.model_server import ModelServer
from tfs_wire.messages import get_model_status_pb2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GOAWAY = 7
MB = 1 << 20


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS, PING, HEADERS, WINDOW_UPDATE = frame(4), frame(6, bytes(8)), 1, 8


def status(server: ModelServer, **options: object) -> str:
    """Ask for a model's state; return the name of the status."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "half_plus_two"
    with grpc.insecure_channel(server.grpc_address, [("grpc.max_metadata_size", 64 * MB)]) as channel:
        method = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        try:
            method(request.SerializeToString(), timeout=20, **options)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def send_all(server: ModelServer, data: bytes) -> bytes:
    """Send bytes, however soon the server closes; return what it says."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.grpc_port), timeout=300) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                received += piece
        except ConnectionError:
            pass
        except OSError as error:  # shutdown() of a connection that the server has reset
            assert error.errno == errno.ENOTCONN
    return received


# gRPC takes longer for each ping, the more of them it has not acknowledged yet: 200,000 take half a minute of processor
# time. So there are fewer of them, and the bound for a ping's memory is the same.
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
            client = open_.enter_context(socket.create_connection(("127.0.0.1", recorded_server.grpc_port), 20))
            client.sendall(PREFACE[:7])
        assert status(recorded_server) == "OK"
        assert recorded_server.rest("GET", "/v1/models/half_plus_two")[0] == 200
