"""HTTP as the real server's libevent implements it, and hostile clients."""

from __future__ import annotations

import gzip
import json
import re
import socket
import struct
import threading
from pathlib import Path

import grpc
import psutil
import pytest

from lightbox.model_runtime.server.rest.http_messages import MAX_BODY_BYTES
from lightbox.model_runtime.wire.messages import predict_pb2
from support.held import Door, export_endless
from support.model_server import MODELS, ModelServer
from support.parameters import each
from support.patience import PATIENCE
from support.rest_bytes import ANSWER, BODY, PREDICT, connect, exchange, request

MB = 1 << 20


@pytest.mark.extended
def test_the_headers_of_an_answer(recorded_server: ModelServer) -> None:
    head, _, body = exchange(recorded_server, request()).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 200 OK"
    names = [line.partition(":")[0] for line in lines[1:]]
    assert names == ["Content-Type", "Date", "Content-Length", "Connection"]
    assert body == ANSWER


def test_a_connection_serves_many_calls_also_after_an_error(recorded_server: ModelServer) -> None:
    with connect(recorded_server) as sock:
        for body, status in ((BODY, b"200 OK"), (b"x", b"400 Bad Request"), (BODY, b"200 OK")):
            sock.sendall(f"POST {PREDICT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert sock.recv(4096).startswith(b"HTTP/1.1 " + status)


def test_a_request_behind_another_in_one_piece_is_not_read(recorded_server: ModelServer) -> None:
    one = f"POST {PREDICT} HTTP/1.1\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    answer = exchange(recorded_server, one + one)
    assert answer.count(ANSWER) == 1
    assert b"Connection: close" in answer


def test_an_upgrade_is_declined(recorded_server: ModelServer) -> None:
    lines = ("Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    assert exchange(recorded_server, request(BODY, *lines)).endswith(ANSWER)


def test_http_1_0_is_closed_unless_kept_alive(recorded_server: ModelServer) -> None:
    answer = exchange(recorded_server, b"GET /v1/models/slow HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200 OK")
    kept = b"GET /v1/models/slow HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    with connect(recorded_server) as sock:
        sock.sendall(kept)
        assert b"Connection: keep-alive" in sock.recv(4096)
        sock.sendall(kept)
        assert sock.recv(4096).startswith(b"HTTP/1.0 200 OK")


def test_what_is_not_found_closes_the_connection(recorded_server: ModelServer) -> None:
    answer = exchange(recorded_server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 Not Found")
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "http://example.com"}, 200), ({}, 400)],
)
def test_options_without_cors(recorded_server: ModelServer, headers: dict[str, str], status: int) -> None:
    assert recorded_server.rest("OPTIONS", PREDICT, headers=headers) == (status, "")


@pytest.mark.extended
def test_cors(tmp_path: Path) -> None:
    flags = ["--model_name=half_plus_two", f"--model_base_path={MODELS}/half_plus_two"]
    with ModelServer(tmp_path, *flags, "--rest_api_enable_cors_support=true") as server:
        server.wait_ready()
        for data in (request(b"", "Origin: x", method="OPTIONS"), request()):
            answer = exchange(server, data)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert b"Access-Control-Allow-Origin: *\r\n" in answer
            assert b"Access-Control-Allow-Methods: POST, GET\r\n" in answer
            assert b"Access-Control-Allow-Headers: Content-Type\r\n" in answer


@pytest.mark.extended
def test_a_call_may_take_too_long(tmp_path: Path, door: Door) -> None:
    export_endless(tmp_path / "endless", door)
    flags = ["--model_name=endless", f"--model_base_path={tmp_path}/endless", "--rest_api_timeout_in_ms=1000"]
    with ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        late, answered = (504, {"error": "Timed out waiting for notification"}), (200, {"predictions": [0]})
        assert server.predict("endless", instances=[1]) == late
        outcomes = [server.predict("endless", instances=[0])]
        while outcomes[-1] == late:  # if the machine stalls for a second
            outcomes.append(server.predict("endless", instances=[0]))
        assert outcomes[-1] == answered


# --------------------------------------------------------------- malformed requests


def test_a_declared_gigabyte_takes_no_memory(recorded_server: ModelServer) -> None:
    assert MAX_BODY_BYTES < 1 << 30
    process = psutil.Process(recorded_server.process.pid)
    before = process.memory_info().rss
    socks = []
    for _ in range(20):
        sock = connect(recorded_server)
        sock.sendall(b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n{" % (PREDICT.encode(), MAX_BODY_BYTES))
        socks.append(sock)
    assert recorded_server.rest("POST", PREDICT, BODY)[0] == 200
    assert process.memory_info().rss - before < 20 * MB
    for sock in socks:
        sock.close()


def test_many_slow_clients_do_not_keep_others_waiting(recorded_server: ModelServer) -> None:
    socks = [connect(recorded_server) for _ in range(100)]
    for index, sock in enumerate(socks):
        sock.sendall(request()[: 10 + index])
    assert recorded_server.rest("POST", PREDICT, BODY)[0] == 200
    for sock in socks:
        sock.close()


@pytest.mark.extended
def test_a_client_that_does_not_read_its_answer(recorded_server: ModelServer) -> None:
    body = b'{"instances":[' + b"1.5," * 400_000 + b"1.5]}"
    socks = []
    for _ in range(12):
        sock = connect(recorded_server)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(request(body))
        socks.append(sock)
    assert recorded_server.rest("POST", PREDICT, BODY)[0] == 200
    for sock in socks:
        sock.close()


def test_a_client_that_resets_the_connection(recorded_server: ModelServer) -> None:
    for _ in range(20):
        sock = connect(recorded_server)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(request())
        sock.close()
    assert recorded_server.rest("POST", PREDICT, BODY)[0] == 200


@each(
    "body",
    [
        b"[" * 200_000,
        b'{"instances":' + b"[" * 100_000 + b"1" + b"]" * 100_000 + b"}",
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"instances":' + b"[" * 300 + b"1" + b"]" * 300 + b"}",
    ],
)
def test_deep_json(recorded_server: ModelServer, body: bytes) -> None:
    status, text = recorded_server.rest("POST", PREDICT, body)
    assert status == 400
    assert re.search(r"JSON Parse error|Too many dimensions", json.loads(text)["error"])


@pytest.mark.extended
def test_a_gzip_bomb_is_no_document(recorded_server: ModelServer) -> None:
    bomb = gzip.compress(b" " * (200 * MB), 1)
    status, text = recorded_server.rest("POST", PREDICT, bomb, {"Content-Encoding": "gzip"})
    assert (status, json.loads(text)["error"]) == (400, "JSON Parse error: The document is empty")


@pytest.mark.parametrize("path", ["/v1/models/%FF%FE:predict", "/v1/models/a%00b:predict", "/v1/models/%E4%B8:predict"])
def test_names_that_are_no_text(recorded_server: ModelServer, path: str) -> None:
    assert recorded_server.rest("POST", path, BODY)[0] == 404


# ------------------------------------------------------------------------ gRPC


def call(server: ModelServer, data: bytes) -> str:
    with grpc.insecure_channel(server.grpc_address) as channel:
        method = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        try:
            method(data, timeout=PATIENCE)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a" * 1000])
def test_broken_messages(recorded_server: ModelServer, data: bytes) -> None:
    assert call(recorded_server, data) != "OK"
    assert recorded_server.rest("POST", PREDICT, BODY)[0] == 200


def half_request(*dims: int) -> predict_pb2.PredictRequest:
    message = predict_pb2.PredictRequest()
    message.model_spec.name = "half_plus_two"
    message.inputs["x"].dtype = 1
    for size in dims:
        message.inputs["x"].tensor_shape.dim.add(size=size)
    return message


@each("dims", [(1 << 40,), (1 << 31, 1 << 31), (1 << 20, 1 << 20), (-1,), (1,) * 300, (1 << 28,)])
def test_huge_declared_shapes_take_no_memory(recorded_server: ModelServer, dims: tuple[int, ...]) -> None:
    message = half_request(*dims)
    message.inputs["x"].float_val.append(1.0)
    process = psutil.Process(recorded_server.process.pid)
    before = process.memory_info().rss
    assert call(recorded_server, message.SerializeToString()) == "INVALID_ARGUMENT"
    assert process.memory_info().rss - before < 50 * MB


def test_threads_are_not_held_by_clients_that_go_away(recorded_server: ModelServer) -> None:
    threads = psutil.Process(recorded_server.process.pid).num_threads

    def come_and_go() -> None:
        callers = [threading.Thread(target=call, args=(recorded_server, b"\xff")) for _ in range(20)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()

    come_and_go()  # a pool has as many threads as there were concurrent calls
    before = threads()
    come_and_go()
    recorded_server.until(lambda: threads() <= before + 16)
