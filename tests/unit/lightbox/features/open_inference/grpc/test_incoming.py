"""Memory of gRPC callers before a handler runs: bounded over all connections, and released."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from lightbox.base.errors import MalformedBody, TooLarge, Unavailable
from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.incoming import PREFIX, Account, Bounds, Incoming, seconds_left
from support.grpc_front import (
    BOUNDS,
    MAX_BYTES,
    RED,
    Caller,
    Watcher,
    floats,
    framed,
    images,
    infer,
    serving,
)
from support.h2_caller import H2Caller
from support.parameters import each
from support.patience import PATIENCE, poll

MB = 1 << 20
HALF = framed(bytes(MAX_BYTES))[: MAX_BYTES // 2]
Serve = Callable[..., AbstractContextManager[Caller]]
CHECK = {**infer(), ":path": f"/{grpc_messages.HEALTH_SERVICE}/Check"}


@pytest.fixture
def serve(pipeline: Pipeline, tmp_path: Path, watcher: Watcher) -> Serve:
    def served(**bounds: Any) -> AbstractContextManager[Caller]:
        return serving(pipeline, tmp_path, [watcher], reflection=True, bounds=replace(BOUNDS, **bounds))

    return served


def test_the_largest_message_in_its_coming_makes_room(serve: Serve, watcher: Watcher) -> None:
    with serve(together=MB) as call, H2Caller(call.port) as client:
        large, small = client.open(infer(**{"x-amzn-requestid": "mine"})), client.open(infer())
        client.send(large, framed(bytes(MB))[: MB - 10])
        client.wait(lambda: call.account.held == MB - 10 - PREFIX)
        client.send(small, HALF[:1000])
        reply = client.answer(large)
        assert "1 MiB, twice LIGHTBOX_MAX_BODY_MB" in str(reply.word("grpc-message"))
        assert (reply.word("grpc-status"), reply.word("x-amzn-requestid")) == ("14", "mine")
        client.wait(lambda: 0 < call.account.held <= 1000)
        assert not client[small].ended
        refused = watcher.requests.get(timeout=PATIENCE)
        assert (refused.status, refused.error_code, refused.request_id) == (503, "unavailable", "mine")
        assert (refused.bytes_in, refused.route) == (MB - 10, infer()[":path"])


def test_a_message_must_be_whole_in_its_time_and_a_stream_may_be_idle(serve: Serve) -> None:
    with serve(receive_seconds=0.4) as call, H2Caller(call.port) as client:
        nothing, begun = client.open(infer()), client.open(infer())
        idle, late = client.open(infer("ModelStreamInfer")), client.open(infer("ModelStreamInfer"))
        client.wait(lambda: len(call.account.calls) == 4)
        client.push(begun, HALF[:10])
        client.push(late, HALF[:10])
        for stream in (nothing, begun, late):
            assert client.answer(stream).word("grpc-message") == "the message was not complete within 0.4 s"
            assert client[stream].word("grpc-status") == "4"
        assert not client[idle].ended


def test_one_more_call_than_may_be_open_ends_the_one_that_has_waited_longest(serve: Serve) -> None:
    request = grpc_messages.message_class("inference.ModelInferRequest")(**images(RED)).SerializeToString()
    with serve(calls=3) as call, H2Caller(call.port) as one, H2Caller(call.port) as other:
        active, idle = one.open(infer("ModelStreamInfer")), one.open(infer("ModelStreamInfer"))
        one.wait(lambda: len(call.account.calls) == 2)
        unary = other.open(infer())
        other.wait(lambda: len(call.account.calls) == 3)
        one.send(active, framed(request))
        one.wait(lambda: bool(one[active].data))
        assert floats(call("ModelInfer", images(RED))) == [200, 0, 0]
        reply = one.answer(idle)
        assert reply.word("grpc-status") == "14"
        assert str(reply.word("grpc-message")).startswith("try again: 3 gRPC calls are open, and this one has waited")
        assert not one[active].ended
        assert not other[unary].ended


def test_watchers_share_a_ping_and_make_room_for_another_call_while_it_lasts(serve: Serve) -> None:
    watch = {**infer(), ":path": f"/{grpc_messages.HEALTH_SERVICE}/Watch"}
    with serve(calls=3) as call, H2Caller(call.port) as client:
        call.ready = None
        watching = [client.open(watch) for _ in range(3)]
        for stream in watching:
            client.send(stream, framed(b""), end=True)
        client.wait(lambda: [one.came for one in call.account.waiting] == [5] * 3 and call.pings > 0)
        assert call.pings == 1
        assert floats(call("ModelInfer", images(RED))) == [200, 0, 0]
        call.ready = True
        # Which one has waited longest depends on whose message came first.
        client.wait(lambda: any(client[stream].ended for stream in watching))
        assert [client[stream].word("grpc-status") for stream in watching if client[stream].ended] == ["14"]
        client.wait(lambda: all(client[stream].data for stream in watching))


@pytest.mark.parametrize("ends_with_headers", [False, True])
@pytest.mark.parametrize("headers", [infer("ServerLive"), infer(), CHECK], ids=["live", "infer", "check"])
def test_a_call_without_a_message_is_answered_at_once(
    serve: Serve, headers: dict[str, str], ends_with_headers: bool
) -> None:
    with serve() as call, H2Caller(call.port) as client:
        stream = client.open(headers, end=ends_with_headers)
        if not ends_with_headers:
            client.push(stream, b"", end=True)
        reply = client.answer(stream)
        assert reply.headers[":status"] == "200"
        assert reply.word("grpc-status") == "12"
        assert "expected exactly one message" in str(reply.word("grpc-message"))


def test_a_unary_call_takes_one_message(serve: Serve) -> None:
    with serve() as call, H2Caller(call.port) as client:
        stream = client.open(infer("ServerLive"))
        client.send(stream, framed(b"abc") * 2, end=True)
        assert client.answer(stream).word("grpc-status") == "12"
        assert call.account.held == 0


def test_a_message_beyond_its_bound_is_refused_by_what_it_says_of_its_length(serve: Serve) -> None:
    with serve() as call, H2Caller(call.port) as client:
        stream = client.open(infer())
        client.push(stream, framed(bytes(MAX_BYTES + 1))[:6])
        reply = client.answer(stream)
        assert reply.word("grpc-message") == "the message is larger than LIGHTBOX_MAX_BODY_MB=1 MiB"
        assert (reply.word("grpc-status"), reply.word("lightbox-code")) == ("8", "too_large")


def test_the_sum_of_a_streams_messages_is_not_bounded(serve: Serve) -> None:
    request = grpc_messages.message_class("inference.ModelInferRequest")
    message = framed(request(**images(RED + bytes(MB // 2))).SerializeToString())
    with serve() as call, H2Caller(call.port) as client:
        stream = client.open(infer("ModelStreamInfer"))
        client.send(stream, message * 5, end=True)
        reply = client.answer(stream)
        assert reply.word("grpc-status") == "0"
        assert reply.data.count(b"FP32") == 5


def test_an_answer_that_is_not_read_counts_and_makes_room_for_others(serve: Serve, watcher: Watcher) -> None:
    request = grpc_messages.message_class("inference.ModelInferRequest")
    wide = framed(request(**images(*[RED] * 250)).SerializeToString())
    closed = {SettingCodes.INITIAL_WINDOW_SIZE: 0}
    with (
        serve(together=MB // 16, message=MB // 8) as call,
        H2Caller(call.port, settings=closed, grants=False) as client,
    ):
        for _ in range(20):  # each response has 3 kB, and the request 25
            client.send(client.open(infer("ModelStreamInfer")), wide)
            assert watcher.requests.get(timeout=PATIENCE).route
            assert call.account.held <= MB // 16
        assert floats(call("ModelInfer", images(RED + bytes(MB // 64)))) == [200, 0, 0]
        client.close()
        assert any(call.account.held == 0 for _ in poll())


@pytest.mark.parametrize("method", ["ModelStreamInfer", "Watch", "ServerReflectionInfo"])
def test_what_a_stream_held_is_given_back_when_its_caller_goes(serve: Serve, method: str) -> None:
    path = {
        "ModelStreamInfer": infer(method)[":path"],
        "Watch": f"/{grpc_messages.HEALTH_SERVICE}/Watch",
        "ServerReflectionInfo": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    }[method]
    unknown = (
        b"\x82\x7d" + bytes([0x80 | (MB // 2) & 0x7F, 0x80 | (MB // 2) >> 7 & 0x7F, (MB // 2) >> 14]) + bytes(MB // 2)
    )
    with serve() as call:
        for _ in range(5):
            with H2Caller(call.port) as client:
                stream = client.open({**infer(), ":path": path})
                client.send(stream, framed(unknown))
                # The stream holds memory, or has held memory and has an answer.
                client.wait(lambda: call.account.held > 0 or bool(client[stream].data) or client[stream].ended)  # noqa: B023
        assert any(call.account.held == 0 for _ in poll())


def test_who_reads_no_answer_keeps_nobody_waiting(serve: Serve, watcher: Watcher) -> None:
    index = grpc_messages.message_class("inference.RepositoryIndexRequest")().SerializeToString()
    reflected = framed(grpc_messages.message_class("grpc.health.v1.HealthCheckRequest")().SerializeToString())
    with serve() as call, H2Caller(call.port, settings={SettingCodes.INITIAL_WINDOW_SIZE: 0}, grants=False) as client:
        streams = [client.open({**infer(), ":path": f"/{grpc_messages.HEALTH_SERVICE}/Watch"}) for _ in range(100)]
        for stream in streams:
            client.send(stream, reflected, end=True)
        waiting = client.open(infer("RepositoryIndex"))
        client.send(waiting, framed(index), end=True)
        assert watcher.requests.get(timeout=PATIENCE).status == 200
        assert floats(call("ModelInfer", images(RED))) == [200, 0, 0]
        assert not client[waiting].data
        client.grant(1 << 16, waiting)
        assert client.answer(waiting).word("grpc-status") == "0"


def test_a_compressed_message_that_becomes_too_large_is_refused(serve: Serve) -> None:
    with serve() as call:
        large = images(bytes(MAX_BYTES))
        assert call.fails("ModelInfer", large, compression=grpc.Compression.Gzip)[0] == "RESOURCE_EXHAUSTED"
        answer, _ = call.with_call("ModelInfer", images(RED), compression=grpc.Compression.Gzip)
        assert floats(answer) == [200, 0, 0]
        assert call.account.held == 0


def read(chunks: Sequence[bytes], bounds: Bounds = BOUNDS, encoding: str | None = None) -> tuple[list[bytes], Account]:
    """Return the messages that chunks of a stream carry, and the account after the last one."""
    left = list(chunks)

    async def chunk() -> bytes:
        return left.pop(0) if left else b""

    async def run() -> tuple[list[bytes], Account]:
        account, found = Account(bounds), []
        incoming = Incoming(account, chunk, encoding, is_stream=True)
        while (message := await incoming.message()) is not None:
            found.append(message)
        incoming.release()
        return found, account

    return asyncio.run(run())


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(1, 50)))
def test_messages_are_found_however_they_are_cut(contents: list[bytes], cuts: list[int]) -> None:
    data = b"".join(framed(one) for one in contents)
    pieces = []
    for cut in [*cuts, len(data) + 1]:
        pieces.append(data[:cut])
        data = data[cut:]
    found, account = read([piece for piece in pieces if piece])
    assert (found, account.held) == (contents, 0)


@pytest.mark.parametrize("data", [b"\0", framed(b"abc")[:-1], framed(b"abc") + b"\0\0"])
def test_a_body_that_ends_within_a_message_is_reported(data: bytes) -> None:
    with pytest.raises(MalformedBody, match="the body ends within a message"):
        read([data])


def compressed(folded: bytes) -> bytes:
    return b"\1" + len(folded).to_bytes(4, "big") + folded


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_compressed_messages_are_unfolded(compress: Callable[[bytes], bytes]) -> None:
    content = random.Random(0).randbytes(600_000)
    found, account = read([compressed(compress(content)), compressed(compress(b""))], encoding="gzip")
    assert (found, account.held) == ([content, b""], 0)


def test_a_compressed_message_counts_as_what_it_has_become() -> None:
    small = compressed(gzip.compress(bytes(MAX_BYTES), 9))
    with pytest.raises(Unavailable, match="twice LIGHTBOX_MAX_BODY_MB"):
        read([small], replace(BOUNDS, together=MAX_BYTES // 2), "gzip")
    with pytest.raises(TooLarge):
        read([small], replace(BOUNDS, message=MAX_BYTES // 2), "gzip")


@each(
    "folded",
    [
        b"",
        b"no gzip",
        gzip.compress(b"a")[:-5],
        gzip.compress(b"a") * 2,
    ],
)
def test_what_is_no_gzip_is_reported(folded: bytes) -> None:
    with pytest.raises(MalformedBody, match="gzip"):
        read([compressed(folded)], encoding="gzip")


def test_an_unknown_compression_is_reported() -> None:
    with pytest.raises(MalformedBody, match="grpc-encoding: expected one of gzip, deflate, got 'snappy'"):
        read([compressed(b"a")], encoding="snappy")


@each(
    ("text", "seconds"),
    [("1H", 3600), ("2M", 120), ("3S", 3), ("500m", 0.5), ("7u", 7e-6), ("99999999n", 0.099999999)]
    + [(text, float("inf")) for text in (None, "", "S", "1", "123456789S", "-1S", "1.5S", "1s", "٣S")],
)
def test_timeouts_are_read(text: str | None, seconds: float) -> None:
    assert seconds_left(text) == pytest.approx(seconds)
