"""Streams of frames with a relay that answers at once or never: limits, silence, slow readers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lightbox.base.errors import Unavailable
from lightbox.features.streams import sockets as streams_server
from lightbox.features.streams import stream as one_stream
from lightbox.features.streams.forwarding import FrameResponse, Relay
from lightbox.features.streams.sockets import StreamServer
from support.patience import PATIENCE

MAX_FRAME, ROOM = 1 << 16, 1 << 20


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test in its own event loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class FakeRelay(Relay):
    """Answers a frame with its size, once ``go`` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.size_of_answer = 1
        self.is_away = False
        self.frames: list[bytes] = []

    async def ask(self, frame: bytes, headers: Mapping[str, str], request_id: str) -> FrameResponse:
        """See Relay."""
        self.frames.append(frame)
        await self.go.wait()
        if self.is_away:
            raise Unavailable("try again: the frame was not taken")
        body = f"{len(frame)}{' ' * self.size_of_answer}".encode()
        return FrameResponse(200, "application/json", "total;dur=1.5", body)


@pytest.fixture(autouse=True)
def slow_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_server, "OPEN_SECONDS", PATIENCE)


@asynccontextmanager
async def serving(folder: Path, most: int = 10, room: int = ROOM) -> AsyncIterator[tuple[StreamServer, FakeRelay, str]]:
    relay = FakeRelay()
    server, address = StreamServer(relay, most, MAX_FRAME, room), str(folder / "s")
    listener = await server.listen(f"unix:{address}")
    watching = asyncio.create_task(server.watch())
    yield server, relay, address
    watching.cancel()
    relay.go.set()
    listener.close(close_connections=False)
    await server.stop()


def opened(address: str, query: str = "", **options: Any) -> Any:
    patient = {"open_timeout": PATIENCE, "ping_interval": None}
    return unix_connect(address, uri=f"ws://localhost/?{query}", compression=None, **patient, **options)


async def opened_by_hand(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a stream without a WebSocket library. The reader returns raw frames."""
    reader, writer = await asyncio.open_unix_connection(address)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def masked(first: int, payload: bytes) -> bytes:
    """Return a masked frame. ``first`` is the opcode, with 0x80 set in the last frame of a message."""
    return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload


async def code_of_close(stream: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await asyncio.wait_for(stream.recv(), PATIENCE)
    return closed.value.rcvd.code if closed.value.rcvd else 1006


@in_loop
async def test_more_streams_than_the_limit_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, most=1) as (_, _, address):
        async with opened(address):
            with pytest.raises(InvalidStatus) as refused:
                await opened(address)
            response = refused.value.response
            assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
            assert json.loads(response.body)["error"] == "try again: 1 streams are open, which is the limit"
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with opened(address) as stream:
                        await stream.send(b"abc")
                        assert json.loads(await stream.recv())["answer"] == 3
                        return
                except InvalidStatus:  # the server has yet to drop the first stream
                    await asyncio.sleep(0.01)


@in_loop
async def test_who_does_not_even_answer_pings_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_server, "PING_SECONDS", 0.05)
    monkeypatch.setattr(streams_server, "SILENT_SECONDS", 0.5)
    async with serving(tmp_path) as (_, _, address), opened(address) as talking:
        reader, writer = await opened_by_hand(address)
        sent = await asyncio.wait_for(reader.read(), PATIENCE)  # until the server closes the stream
        assert b"no sign of life for 0.5 s" in sent
        writer.close()
        await talking.send(b"ab")  # the client library answers pings
        assert json.loads(await talking.recv())["answer"] == 2


@pytest.mark.parametrize("opcode", [1, 2], ids=["text", "binary"])
@pytest.mark.parametrize("close", [b"\x03\xe8", b"\x03\xe9gone", b""], ids=["1000", "1001", "no code"])
@in_loop
async def test_a_close_between_fragments_gets_its_own_code_back(tmp_path: Path, opcode: int, close: bytes) -> None:
    async with serving(tmp_path) as (server, relay, address):
        reader, writer = await opened_by_hand(address)
        writer.write(masked(opcode, b"a") + masked(0x89, b"ping") + masked(0, b"b"))
        pong = b"\x8a\x04ping"
        assert await asyncio.wait_for(reader.readexactly(len(pong)), PATIENCE) == pong
        writer.write(masked(0x88, close))
        assert await asyncio.wait_for(reader.read(), PATIENCE) == bytes([0x88, len(close)]) + close
        writer.close()
        await server.stop()  # waits until the server has closed the stream
        assert (relay.frames, server._budget.held) == ([], 0)


@in_loop
async def test_fragments_are_held_to_the_order_of_frames_and_to_the_limit(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, relay, address):
        for frames, code in [
            (masked(2, b"a") + masked(0x82, b"b"), 1002),  # a message within a message
            (masked(0x80, b"b"), 1002),  # a last fragment without a first
            (b"\x02\xff" + (MAX_FRAME - 1).to_bytes(8, "big") + bytes(4 + MAX_FRAME - 1) + masked(0x80, b"bc"), 1009),
        ]:
            reader, writer = await opened_by_hand(address)
            writer.write(frames)
            sent = await asyncio.wait_for(reader.read(), PATIENCE)
            assert int.from_bytes(sent[2:4], "big") == code, sent
            writer.close()
        assert relay.frames == []


@pytest.mark.extended
@in_loop
async def test_a_process_that_stood_still_does_not_take_its_callers_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_server, "PING_SECONDS", 0.05)
    monkeypatch.setattr(streams_server, "SILENT_SECONDS", 0.5)
    async with serving(tmp_path) as (_, _, address), opened(address) as talking:
        for _ in range(3):
            time.sleep(0.7)  # blocks the loop, like a suspended machine
            await asyncio.sleep(0.1)
        await talking.send(b"ab")
        assert json.loads(await talking.recv())["answer"] == 2


@in_loop
async def test_who_does_not_read_answers_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_stream, "SEND_SECONDS", 0.2)
    async with serving(tmp_path) as (_, relay, address):
        relay.size_of_answer = 1 << 24
        async with opened(address, max_size=None, max_queue=1) as stream:
            stream.transport.pause_reading()
            await stream.send(b"a")
            async with asyncio.timeout(PATIENCE):
                while stream.transport.get_extra_info("socket").fileno() >= 0:
                    try:
                        await stream.send(b"a")
                    except ConnectionClosed:
                        break
                    await asyncio.sleep(0.02)


@in_loop
async def test_all_streams_together_hold_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    async with serving(tmp_path, room=100_000) as (_, relay, address):
        relay.go.clear()
        async with opened(address) as first, opened(address) as second:
            await first.send(bytes(60_000))
            await second.send(bytes(60_000))
            done, _ = await asyncio.wait(
                [asyncio.create_task(code_of_close(stream)) for stream in (first, second)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert {task.result() for task in done} == {1013}
            relay.go.set()
        async with opened(address) as after:  # the server has released the memory
            for _ in range(5):
                await after.send(bytes(60_000))
                assert json.loads(await after.recv())["answer"] == 60_000


@in_loop
async def test_a_stop_does_not_wait_for_the_newest_frame_of_many(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, relay, address), opened(address, "latest=true") as stream:
        relay.go.clear()
        await stream.send(b"first")
        async with asyncio.timeout(PATIENCE):
            while not relay.frames:
                await asyncio.sleep(0.01)
        await stream.send(b"waits")
        assert await asyncio.wait_for(await stream.ping(), PATIENCE) >= 0  # the server has read the earlier frames
        stop = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        await stream.send(b"comes after the stop began")
        assert await asyncio.wait_for(await stream.ping(), PATIENCE) >= 0
        relay.go.set()
        assert [json.loads(await stream.recv())["frame"] for _ in range(2)] == [1, 2]
        assert await code_of_close(stream) == 1012
        await stop
    assert relay.frames == [b"first", b"waits"]


@in_loop
async def test_a_frame_that_nobody_takes_is_an_error_unless_all_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_stream, "STOP_SECONDS", 0.01)
    async with serving(tmp_path) as (server, relay, address), opened(address) as stream:
        relay.is_away = True
        await stream.send(b"abc")
        reply = json.loads(await stream.recv())
        assert (reply["status"], reply["answer"]["code"]) == (503, "unavailable")
        relay.go.clear()
        await stream.send(b"abc")
        stop = asyncio.create_task(server.stop())
        relay.go.set()
        assert await code_of_close(stream) == 1012
        await stop


def test_a_restart_forgets_open_streams_and_keeps_dropped_frames() -> None:
    counts = [5, 7]
    StreamServer(FakeRelay(), 10, MAX_FRAME, ROOM, counts)
    assert counts == [0, 7]
