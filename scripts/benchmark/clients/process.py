"""Runs clients in processes of their own, so that they never wait for each other's locks."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType

from benchmark.clients.base import Client, Load, Sample, run
from benchmark.servers.base import Address

_context = multiprocessing.get_context("forkserver")
"""Not fork: gRPC's and boto3's threads do not survive one, and a client must not carry its parent's memory."""
_context.set_forkserver_preload(["benchmark.clients.http", "boto3", "grpc.aio", "numpy"])


class ClientProcess:
    """A client that waits for loads. Use as a context manager."""

    def __init__(self, client: Client, address: Address) -> None:
        self._client = client
        self._address = address
        self._process = ProcessPoolExecutor(1, _context)

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.shutdown()

    def run(self, load: Load) -> Sample:
        """Run a load and return what it gave; raise what the client raises, BrokenProcessPool when its process ends."""
        return self._process.submit(run, self._client, self._address, load).result()
