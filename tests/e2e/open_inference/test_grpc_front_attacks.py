"""Hostile callers of the gRPC port: the resources they can use, and the answers to other callers meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import grpc
import psutil
import pytest
from hyperframe.frame import ContinuationFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.grpc_front import framed, infer
from support.h2_caller import H2Caller
from support.held import held_file
from support.models import copy_golden
from support.parameters import few_of
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port, running

PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
MB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize()
MESSAGE = 20 * MB
REQUEST = grpc_messages.message_class("inference.ModelInferRequest")(
    model_name="half_plus_two",
    inputs=[{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.0]}}],
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("attacked")
    copy_golden("half_plus_two", folder / "models" / "half_plus_two")
    with running(folder / "models", folder / "run", **{PORT: str(free_port())}) as stack:
        yield stack


@pytest.fixture
def another(attacked: Stack) -> Iterator[Callable[[], None]]:
    """Return a function that calls as an ordinary client on an established connection, and expects answers."""
    with grpc.insecure_channel(f"127.0.0.1:{port(attacked)}") as channel:
        unary = channel.unary_unary(
            f"/{grpc_messages.INFERENCE_SERVICE}/ModelInfer",
            request_serializer=type(REQUEST).SerializeToString,
            response_deserializer=grpc_messages.ModelInferResponse.FromString,
        )
        stream = channel.stream_stream(
            f"/{grpc_messages.INFERENCE_SERVICE}/ModelStreamInfer",
            request_serializer=type(REQUEST).SerializeToString,
            response_deserializer=grpc_messages.ModelStreamInferResponse.FromString,
        )

        def call() -> None:
            assert unary(REQUEST, timeout=PATIENCE).model_name == "half_plus_two"
            (answer,) = stream(iter([REQUEST]), timeout=PATIENCE)
            assert answer.infer_response.model_name == "half_plus_two"

        call()
        yield call


def port(stack: Stack) -> int:
    return int(stack.environ[PORT])


def fronts(stack: Stack) -> list[psutil.Process]:
    return stack.processes("nginx: worker") + stack.processes("open_inference.grpc.front")


def memory(stack: Stack) -> float:
    return float(sum(process.memory_info().rss for process in fronts(stack))) / MB


def opened(stack: Stack) -> int:
    """Return the number of nginx's connections to the gRPC front."""
    (worker,) = stack.processes("open_inference.grpc.front")
    return sum(
        str(one.laddr).endswith(("grpc_calls.sock", "grpc_streams.sock"))
        for one in worker.net_connections("unix")
        if one.laddr
    )


WATCH = {":path": f"/{grpc_messages.HEALTH_SERVICE}/Watch"}


@pytest.mark.parametrize("more", few_of([{}, infer("ModelStreamInfer"), WATCH], {}), ids=["unary", "stream", "watch"])
def test_nine_connections_of_calls_that_never_end_keep_nobody_out(
    attacked: Stack, another: Callable[[], None], more: dict[str, str]
) -> None:
    with ExitStack() as open_:
        clients = [open_.enter_context(H2Caller(port(attacked))) for _ in range(9)]
        calls = [(client, client.open(infer() | more)) for client in clients for _ in range(128)]
        for client, stream in calls if more is WATCH else []:
            client.send(stream, framed(b""), end=True)
        another()
        for client in clients:  # nginx answers in order: a pong means it has read all
            client.ping(b"all read")
            client.wait(lambda client=client: client.pongs)  # type: ignore[misc]
        for _ in range(3):
            another()
        assert not any(client.closed for client in clients)
        ended = sum(client[stream].ended for client, stream in calls)
        assert ended < 200, "no more than what makes room for others"
    another()


def test_nine_connections_of_calls_without_a_message_keep_nobody_out(
    attacked: Stack, another: Callable[[], None]
) -> None:
    with ExitStack() as open_:
        clients = [open_.enter_context(H2Caller(port(attacked))) for _ in range(9)]
        calls = [(client, client.open(infer(), end=True)) for client in clients for _ in range(128)]
        another()
        assert {client.answer(stream).word("grpc-status") for client, stream in calls} <= {"12", "14"}


@pytest.mark.extended
def test_30_messages_of_20_mib_less_a_byte(attacked: Stack, another: Callable[[], None]) -> None:
    before, most = memory(attacked), 0.0
    data = framed(bytes(MESSAGE))[:-1]
    with H2Caller(port(attacked)) as client:
        left = {client.open(infer()): 0 for _ in range(30)}
        for _ in poll(pause=0):
            for stream in list(left):
                left[stream] += client.push(stream, data[left[stream] : left[stream] + 4 * MB])
                if client[stream].ended or left[stream] == len(data):
                    del left[stream]
            client.hear(0.01)
            most = max(most, memory(attacked) - before)
            if not left:
                break
        another()
        most = max(most, memory(attacked) - before)
        assert 100 < most < 260, "all messages together may have 200 MiB"
    assert any(memory(attacked) - before < 60 for _ in poll())


@pytest.mark.extended
def test_a_thousand_connections(attacked: Stack, another: Callable[[], None]) -> None:
    before = memory(attacked)
    with ExitStack() as open_:
        for _ in range(1000):
            client = open_.enter_context(H2Caller(port(attacked)))  # nginx waits only 5 s for a request
            stream = client.open(infer("ServerLive"))
            client.send(stream, framed(b""), end=True)
            assert client.answer(stream).word("grpc-status") == "0"
        another()
        assert memory(attacked) - before < 100


def flood(stack: Stack, frames: bytes, times: int) -> None:
    """Send frames over ``times`` connections, one after another. Wait until nginx has closed each."""
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", port(stack)), PATIENCE) as connection, suppress(OSError):
            reading = threading.Thread(target=read_all, args=(connection,))
            reading.start()
            try:
                connection.sendall(PREFACE + frames)
                connection.shutdown(socket.SHUT_WR)
            finally:
                reading.join()


def is_answered(another: Callable[[], None]) -> bool:
    """Return whether another client gets an answer. The only error allowed is UNAVAILABLE."""
    try:
        another()
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE, error
        return False
    return True


def read_all(connection: socket.socket) -> None:
    """Read until nginx closes."""
    with suppress(ConnectionError):
        while connection.recv(1 << 20):
            pass


@pytest.mark.extended
def test_50_000_resets(attacked: Stack, another: Callable[[], None]) -> None:
    before, seconds = memory(attacked), cpu(attacked)
    block = headers(infer())
    frames = (
        HeadersFrame(stream, block, flags=["END_HEADERS"]).serialize() + RstStreamFrame(stream, 8).serialize()
        for stream in range(1, 2001, 2)
    )
    flood(attacked, b"".join(frames), 50)
    assert any(is_answered(another) for _ in poll(pause=0.2))
    assert memory(attacked) - before < 100
    assert any(opened(attacked) < 100 for _ in poll())
    assert cpu(attacked) - seconds < 50_000 * 0.001


@pytest.mark.extended
def test_endless_pings(attacked: Stack, another: Callable[[], None]) -> None:
    before = memory(attacked)
    flood(attacked, PingFrame(0, bytes(8)).serialize() * 100_000, 2)
    another()
    assert memory(attacked) - before < 50


def test_metadata_of_megabytes(attacked: Stack, another: Callable[[], None]) -> None:
    before = memory(attacked)
    more = headers({"x-more": "m" * 15_000})
    frames = HeadersFrame(1, headers(infer())).serialize() + ContinuationFrame(1, more).serialize() * 512
    flood(attacked, frames, 3)
    another()
    assert memory(attacked) - before < 50


def test_while_the_front_is_away_calls_wait(attacked: Stack, another: Callable[[], None]) -> None:
    (plan,) = attacked.tmp.glob("lightbox-*/plan.json")
    with ExitStack() as callers:
        calls = []
        with held_file(plan):  # the next worker waits for it
            attacked.lose("lightbox.features.open_inference.grpc.front")
            for method in ("ModelInfer", "ModelStreamInfer"):
                client = callers.enter_context(H2Caller(port(attacked)))
                calls.append((client, client.open(infer(method))))
                client.send(calls[-1][1], framed(REQUEST.SerializeToString()), end=True)
        for client, stream in calls:
            reply = client.answer(stream)
            assert (reply.headers[":status"], reply.word("grpc-status")) == ("200", "0")
    attacked.wait_for_ping(200)
    another()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({":path": "/a.B/C"}, "12"),
        ({":path": "/"}, "12"),
        ({":path": "/invocations"}, "12"),
        ({":path": "/\xe9"}, "3"),
        ({":method": "GET"}, "12"),
        ({":method": "TRACE"}, "12"),
        ({":method": "BREW"}, "3"),
        ({"content-type": "text/plain"}, "3"),
        ({"x-more": "m" * 20_000}, "12"),
    ],
    ids=["method", "root", "rest", "no ascii", "get", "trace", "brew", "type", "long"],
)
def test_what_is_no_call_of_ours_is_refused_in_grpcs_form(attacked: Stack, more: dict[str, str], status: str) -> None:
    with H2Caller(port(attacked)) as client:
        reply = client.answer(client.open({**infer(), **more}, end=True))
        assert (reply.headers[":status"], reply.word("grpc-status")) == ("200", status)


def headers(fields: dict[str, str]) -> bytes:
    """Return headers in HPACK without its tables."""
    parts: list[bytes] = []
    for name, value in fields.items():
        parts.append(b"\0")
        for text in (name, value):
            size = len(text)
            parts.append(bytes([size]) if size < 127 else b"\x7f" + varint(size - 127))
            parts.append(text.encode())
    return b"".join(parts)


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def cpu(stack: Stack) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in fronts(stack)))
