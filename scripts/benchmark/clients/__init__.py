"""Who measures: how loads are driven, whatever the protocol, and what a run gives.

Each variant's client runs in a process of its own, so that it never waits for another's lock.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from benchmark.servers import Address
from lightbox.client.invoke import read_server_timing

MOST_AT_ONCE = 512
"""Requests of an open loop in progress; the next ones start late, and their latency says so."""
_context = multiprocessing.get_context("forkserver")
"""Not fork: gRPC's and boto3's threads do not survive one, and a client must not carry its parent's memory."""
_context.set_forkserver_preload(["benchmark.clients.http", "boto3", "grpc.aio", "numpy"])


@dataclass(frozen=True)
class Load:
    """How requests are sent.

    Closed loop (``rate`` is None): ``clients`` send one request after another, ``requests`` in all, and none after
    ``most_seconds``. With ``waves`` all clients start together, and a latency is that of a wave, from its start to its
    last answer. Open loop: ``rate`` requests start each second whatever the server does, and a latency counts from the
    moment at which its request was to start.
    """

    requests: int
    clients: int = 1
    rate: float | None = None
    waves: bool = False
    most_seconds: float = 120.0


@dataclass
class Sample:
    """What one run of a load gave. Times are in seconds, stages in milliseconds as Server-Timing has them.

    ``refused`` holds how long each answer 503 took, which counts among the errors too. Bytes are those of bodies.
    """

    latencies: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    seconds: float = 0.0
    answers: int = 0
    errors: int = 0
    first_error: str = ""
    bytes_sent: int = 0
    bytes_received: int = 0
    stages: dict[str, list[float]] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    def note(self, sent: int, received: int, server_timing: str = "") -> None:
        """Note the bytes of one exchange, and the stages that its answer tells of."""
        self.bytes_sent += sent
        self.bytes_received += received
        for name, milliseconds in read_server_timing(server_timing).items():
            self.stages.setdefault(name, []).append(milliseconds)

    def fail(self, reason: str) -> None:
        """Note an answer that is none."""
        self.errors += 1
        self.first_error = self.first_error or " ".join(reason.split())[:300]


class Failed(Exception):
    """An answer is none; the message has its status and its first words."""


class Refused(Failed):
    """The server had no room: an answer 503."""


Call = Callable[[Sample], Awaitable[None]]
"""Makes one request and notes its bytes and stages; raises when it fails, ``Refused`` where there is no room."""


class Client(Protocol):
    """What to send; small enough to travel to another process, comparable, without open connections."""

    def connected(self, address: Address) -> AbstractAsyncContextManager[Call]:
        """Connect to a server for one run."""
        ...


def run(client: Client, address: Address, load: Load) -> Sample:
    """Put a load on a server, and return when all of it is answered."""

    async def connect_and_drive() -> Sample:
        async with client.connected(address) as call:
            return await drive(call, load)

    return asyncio.run(connect_and_drive())


@contextmanager
def client_process(client: Client, address: Address) -> Iterator[Callable[[Load], Sample]]:
    """Give what runs a load in a process of its own, and raises what the client raises, or BrokenProcessPool."""
    with ProcessPoolExecutor(1, _context) as process:
        yield lambda load: process.submit(run, client, address, load).result()


async def drive(call: Call, load: Load) -> Sample:
    """Make calls as a load has them, and measure."""
    sample, cpu, began = Sample(), time.process_time(), time.perf_counter()
    if load.waves:
        for _ in range(max(1, load.requests // load.clients)):
            started = time.perf_counter()
            await asyncio.gather(*(_timed(call, sample, started, latency=False) for _ in range(load.clients)))
            sample.latencies.append(time.perf_counter() - started)
    elif load.rate:
        await _open_loop(call, load, load.rate, sample)
    else:
        turns = iter(range(load.requests))

        async def one_client() -> None:
            for _ in turns:  # shared: the next free client takes the next turn
                started = time.perf_counter()
                if started - began > load.most_seconds:
                    return
                await _timed(call, sample, started)

        await asyncio.gather(*(one_client() for _ in range(load.clients)))
    sample.seconds = time.perf_counter() - began
    sample.cpu_seconds = time.process_time() - cpu
    return sample


async def _open_loop(call: Call, load: Load, rate: float, sample: Sample) -> None:
    room = asyncio.Semaphore(MOST_AT_ONCE)
    began = time.perf_counter()

    async def one_request(due: float) -> None:
        async with room:
            await _timed(call, sample, due)

    async with asyncio.TaskGroup() as tasks:
        for number in range(load.requests):
            due = began + number / rate
            await asyncio.sleep(due - time.perf_counter())
            tasks.create_task(one_request(due))


async def _timed(call: Call, sample: Sample, started: float, latency: bool = True) -> None:
    try:
        await call(sample)
    except Exception as error:  # whatever a client library raises is one failed request
        if isinstance(error, Refused):
            sample.refused.append(time.perf_counter() - started)
        sample.fail(str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}")
        return
    sample.answers += 1
    if latency:
        sample.latencies.append(time.perf_counter() - started)
