"""The measuring clients: drive a load over any protocol and collect samples.

Each variant's client runs in its own process, so that clients do not share an interpreter lock.
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

MOST_AT_ONCE = 512
"""Requests of an open loop in progress; the next ones start late, and their latency says so."""
_context = multiprocessing.get_context("forkserver")
"""Not fork: gRPC's threads do not survive one, and a client must not carry its parent's memory."""
_context.set_forkserver_preload(["benchmark.clients.http", "grpc.aio", "numpy"])


@dataclass(frozen=True)
class Load:
    """How requests are sent.

    Closed loop (``rate`` is None): ``clients`` send one request after another, ``requests`` in total, and stop after
    ``most_seconds``. Open loop: ``rate`` requests start each second regardless of the server, and a latency counts from
    the scheduled start of its request.
    """

    requests: int
    clients: int = 1
    rate: float | None = None
    most_seconds: float = 120.0


@dataclass
class Sample:
    """The result of one run of a load. Times are in seconds.

    ``refused`` holds the latency of each 503 response; these also count as errors. Bytes are body bytes. ``answering``
    is the time until the last response, as refusals may come later.
    """

    latencies: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    seconds: float = 0.0
    answering: float = 0.0
    responses: int = 0
    errors: int = 0
    first_error: str = ""
    bytes_sent: int = 0
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Responses per second."""
        return self.responses / self.seconds

    def fail(self, reason: str) -> None:
        """Record a failed request."""
        self.errors += 1
        self.first_error = self.first_error or " ".join(reason.split())[:300]


class Failed(Exception):
    """A request failed; the message has the status and the start of the body."""


class Refused(Failed):
    """The server was overloaded: a 503 response."""


Call = Callable[[Sample], Awaitable[None]]
"""Makes one request and notes its bytes; raises when it fails, ``Refused`` where there is no room."""


class Client(Protocol):
    """The requests to send: picklable, comparable, without open connections."""

    def connected(self, address: Address) -> AbstractAsyncContextManager[Call]:
        """Connect to a server for one run."""
        ...


def run(client: Client, address: Address, load: Load) -> Sample:
    """Put a load on a server and return when all requests are answered."""

    async def connect_and_drive() -> Sample:
        async with client.connected(address) as call:
            return await drive(call, load)

    return asyncio.run(connect_and_drive())


@contextmanager
def client_process(client: Client, address: Address) -> Iterator[Callable[[Load], Sample]]:
    """Give a function that runs a load in its own process and raises the client's errors or BrokenProcessPool."""
    with ProcessPoolExecutor(1, _context) as process:
        yield lambda load: process.submit(run, client, address, load).result()


async def drive(call: Call, load: Load) -> Sample:
    """Make the calls of a load and measure them."""
    sample, cpu, began = Sample(), time.process_time(), time.perf_counter()
    sample.answering = began
    if load.rate:
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
    sample.answering -= began
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


async def _timed(call: Call, sample: Sample, started: float) -> None:
    try:
        await call(sample)
    except Exception as error:  # any exception of a client library is one failed request
        if isinstance(error, Refused):
            sample.refused.append(time.perf_counter() - started)
        sample.fail(str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}")
        return
    sample.responses += 1
    sample.answering = time.perf_counter()
    sample.latencies.append(sample.answering - started)
