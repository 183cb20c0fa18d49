"""What callers of gRPC may hold before a handler hears of them: bounded over all connections, and given back."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import os
import random
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference import grpc_gate, http2
from lightbox.features.open_inference.grpc_gate import Gate
from lightbox.features.open_inference.http2 import MOST_UNFOLDED, OpenCall
from lightbox.processes.commands import child_environ
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model
from support.grpc_front import BOUNDS, MAX_BYTES, RED, Caller, Watcher, floats, images, make_pipeline, serving
from support.http2_client import RawClient, message
from support.patience import PATIENCE

MB = 1 << 20
Connect = Callable[[], RawClient]
Serve = Callable[..., AbstractContextManager[Caller]]
LARGE = message(MAX_BYTES)


@pytest.fixture
def pipeline() -> Pipeline:
    fake = FakeTransport()
    fake.serve(mean_model(), channel_means)
    return make_pipeline(fake, ["mean"])


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def serve(pipeline: Pipeline, tmp_path: Path, watcher: Watcher) -> Serve:
    def served(**bounds: Any) -> AbstractContextManager[Caller]:
        return serving(pipeline, f"unix:{tmp_path}/s", [watcher], bounds=replace(BOUNDS, **bounds))

    return served


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[], RawClient]]:
    clients: list[RawClient] = []

    def made() -> RawClient:
        clients.append(RawClient(f"{tmp_path}/s"))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


@pytest.mark.extended
@pytest.mark.parametrize("calls", [40, 80])
def test_unfinished_messages_are_bounded_over_all_connections(calls: int) -> None:
    command = [sys.executable, "-m", "support.unfinished", str(calls), str(16 * MB)]
    environ = child_environ() | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    run = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["sent"] > 0.8
    assert told["held"] <= 16 * MB
    assert told["growth"] < 3 * 16 * MB
    assert (told["beside"], told["after"], told["refused"]) == ([200, 0, 0], [200, 0, 0], "unavailable")


def test_the_largest_message_in_its_coming_makes_room(serve: Serve, watcher: Watcher, connect: Connect) -> None:
    with serve(together=MB) as call:
        client = connect()
        client.open(1)
        client.wait(lambda: client.push(1, LARGE, MB - 10) == 0 and call.gate.held == MB - 10)
        client.open(3)
        client.wait(lambda: client.push(3, LARGE, 1000) == 0 and 1 in client.ended)
        assert b"1 MiB, twice LIGHTBOX_MAX_BODY_MB" in client.answers[1]
        assert b"grpc-status\x0214" in client.answers[1]
        client.wait(lambda: call.gate.held == 1000)
        assert 3 not in client.ended
        refused = watcher.requests.get(timeout=PATIENCE)
        assert (refused.status, refused.error_code) == (503, "unavailable")
        assert refused.request_id.encode() in client.answers[1]
        client.close()


def test_what_is_answered_is_counted_no_more(serve: Serve) -> None:
    with serve(together=MB) as call:
        body = images(RED + bytes(MB // 2))  # bytes behind an image do not matter
        assert [floats(call("ModelInfer", body)) for _ in range(5)] == [[200, 0, 0]] * 5
        assert (call.gate.held, len(call.gate.calls)) == (0, 0)


def test_a_message_must_be_whole_in_its_time(serve: Serve, watcher: Watcher, connect: Connect) -> None:
    for seconds in (0.4, 4, 40):  # a machine that stands still before a frame is whole has its connection closed
        with serve(receive_seconds=seconds):
            client = connect()
            client.open(1)
            client.push(1, LARGE, 10)
            client.open(3)  # nothing has begun here: a stream may be idle
            client.wait(lambda client=client: client.closed or 1 in client.ended)  # type: ignore[misc]
            client.close()
        if 1 in client.ended:
            break
    assert f"the message was not complete within {seconds} s".encode() in client.answers[1]
    assert 3 not in client.ended
    while watcher.requests.get(timeout=PATIENCE).error_code != "deadline_exceeded":
        pass


def test_a_connection_must_say_what_it_begins_to_say(serve: Serve, watcher: Watcher, connect: Connect) -> None:
    with serve(receive_seconds=0.4) as call:
        client = connect()
        client.send_raw(http2.frame(http2.DATA, 0, 1, bytes(100))[:50])
        client.wait(lambda: client.closed)
        client.wait(lambda: len(call.gate.connections) == 0)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", http2.PREFACE + http2.frame(4, 0, 0, bytes(20_000))])
def test_what_is_no_http2_is_hung_up_on(serve: Serve, sent: bytes, connect: Connect) -> None:
    with serve():
        client = connect()
        client.send_raw(sent)
        client.wait(lambda: client.closed)


def test_calls_and_connections_are_bounded_together(serve: Serve, watcher: Watcher, connect: Connect) -> None:
    with serve(calls=3, connections=2) as call:
        clients = [connect(), connect()]
        for client, number in ((clients[0], 1), (clients[0], 3), (clients[1], 1)):
            client.open(number)
        clients[1].wait(lambda: len(call.gate.calls) == 3)
        clients[1].open(3)
        clients[1].wait(lambda: 3 in clients[1].ended)
        assert b"try again: 3 gRPC calls are open already" in clients[1].answers[3]
        third = connect()
        third.wait(lambda: third.closed)
        clients[0].close()
        clients[1].wait(lambda: len(call.gate.connections) == 1)
        assert floats(call("ModelInfer", images(RED))) == [200, 0, 0]
        clients[1].close()


def test_a_message_beyond_its_bound_is_refused_by_what_it_says_of_its_length(
    serve: Serve, watcher: Watcher, connect: Connect
) -> None:
    with serve():
        client = connect()
        client.open(1)
        client.push(1, message(2 * MAX_BYTES + 1), 6)
        client.wait(lambda: 1 in client.ended)
        assert b"the message of 2,097,153 bytes is larger than LIGHTBOX_MAX_BODY_MB allows" in client.answers[1]
        assert b"grpc-status\x018" in client.answers[1]
        client.close()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("step", [1 << 14, 100])
def test_a_compressed_message_counts_what_it_becomes(compress: Callable[[bytes], bytes], step: int) -> None:
    photo = random.Random(0).randbytes(60_000)
    lists = b"0.25, 0.5, 1.0, 0.125, " * 4 + photo[:40]
    for content in (photo, lists * 500):
        call = OpenCall(1, lambda *_: None)
        sent = b"\1" + message(len(folded := compress(content)))[1:5] + folded
        held = [call.take(sent[at : at + step], 1 << 30) for at in range(0, len(sent), step)]
        assert held[-1] == max(len(folded), len(content))


@pytest.mark.parametrize("folded", [gzip.compress(bytes(MB), mtime=0), b"no gzip", gzip.compress(b"a", mtime=0) * 2])
def test_a_compressed_message_that_nobody_unfolds_here_counts_what_it_may_become(folded: bytes) -> None:
    sent = b"\1" + message(len(folded))[1:5] + folded
    assert OpenCall(1, lambda *_: None).take(sent, 1 << 30) == MOST_UNFOLDED * len(folded)


def test_a_compressed_message_counts_as_what_it_may_unfold_to(serve: Serve, watcher: Watcher, connect: Connect) -> None:
    small = gzip.compress(bytes(MAX_BYTES), 9, mtime=0)
    whole = b"\1" + len(small).to_bytes(4, "big") + small
    with serve(together=MAX_BYTES // 2) as call:
        client = connect()
        client.open(1, {"grpc-encoding": "gzip"})
        client.push(1, whole, len(whole))
        client.wait(lambda: 1 in client.ended)
        assert b"LIGHTBOX_MAX_BODY_MB" in client.answers[1]
        client.close()
        answer, _ = call.with_call("ModelInfer", images(RED), compression=grpc.Compression.Gzip)
        assert floats(answer) == [200, 0, 0]


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(1, 50)), st.booleans())
def test_messages_are_found_however_they_are_cut(contents: list[bytes], cuts: list[int], padded: bool) -> None:
    data = b"".join(bytes([index % 2]) + len(one).to_bytes(4, "big") + one for index, one in enumerate(contents))
    frames, position = [http2.PREFACE], 0
    for cut in [*cuts, len(data) + 1]:
        piece = data[position : position + cut]
        payload = bytes([3]) + piece + bytes(3) if padded else piece
        frames.append(http2.frame(http2.DATA, http2.PADDED if padded else 0, 1, payload))
        position += cut
    cutter, found, sent = http2.Frames(http2.MAX_FRAME, http2.PREFACE), http2.Messages(), b"".join(frames)
    passed: list[bytes] = []
    sizes: list[tuple[int, bool]] = []
    begin = 0
    for cut in [*cuts, len(sent)]:
        for frame in cutter.feed(sent[begin : begin + cut]):
            passed.append(frame.data)
            sizes += found.feed(frame.content())
        begin += cut
    assert b"".join(passed) == sent[len(http2.PREFACE) :]
    assert sizes == [(len(one), bool(index % 2)) for index, one in enumerate(contents)]
    assert (found.partial, cutter.unfinished_since) == (0, math.inf)


def test_headers_and_their_continuations_are_one(tmp_path: Path) -> None:
    frames = http2.Frames(http2.MAX_FRAME)
    parts = [http2.frame(http2.HEADERS, 0, 1, b"a"), http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, b"b")]
    assert list(frames.feed(parts[0])) == []
    (whole,) = frames.feed(parts[1])
    assert (whole.kind, whole.data) == (http2.HEADERS, b"".join(parts))
    with pytest.raises(http2.BadFrames):
        list(frames.feed(parts[0] + http2.frame(http2.DATA, 0, 1, b"")))
    endless = http2.Frames(http2.MAX_FRAME)
    with pytest.raises(http2.BadFrames):
        list(endless.feed(parts[0] + http2.frame(http2.CONTINUATION, 0, 1, b"x") * http2.MAX_HEADERS))
    with pytest.raises(http2.BadFrames):
        list(http2.Frames(http2.MAX_FRAME).feed(parts[0] + http2.frame(http2.CONTINUATION, 0, 1, bytes(16_000)) * 3))


@pytest.mark.parametrize("caller_writes", [False, True])
def test_what_the_server_sent_last_arrives_at_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller_writes: bool
) -> None:
    monkeypatch.setattr(grpc_gate, "_LAST_SECONDS", PATIENCE)
    ping = http2.frame(6, 0, 0, bytes(8))
    count = 2_000 if caller_writes else 50_000

    async def stop_at_once() -> int:
        connected, ended, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(len(http2.PREFACE))
            connected.set()
            await ended.wait()
            writer.write(ping * count)
            writer.close()
            await writer.wait_closed()
            gone.set()

        server = await asyncio.start_unix_server(answer, tmp_path / "server")
        gate = Gate(str(tmp_path / "server"), BOUNDS, lambda *_: None)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "gate"))
        await gate.listen(listener)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "gate")
        writer.write(http2.PREFACE)
        await connected.wait()
        gate.close()
        (connection,) = gate.connections
        if caller_writes:  # to a server that has closed, while what it sent is still to be read
            connection.server.other.pause_writing()
        ended.set()
        if caller_writes:
            await gone.wait()
            writer.write(ping)
        received, _ = await asyncio.gather(reader.read(-1), gate.end())
        writer.close()
        server.close()
        return len(received)

    assert asyncio.run(stop_at_once()) == len(ping) * count
