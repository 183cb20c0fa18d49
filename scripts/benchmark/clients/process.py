"""Runs clients in processes of their own, so that they never wait for each other's locks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from benchmark.clients.base import Client, Load, Sample, run
from benchmark.servers import Address

_context = multiprocessing.get_context("forkserver")
"""Not fork: gRPC's and boto3's threads do not survive one, and a client must not carry its parent's memory."""
_context.set_forkserver_preload(["benchmark.clients.http", "boto3", "grpc.aio", "numpy"])


@contextmanager
def client_process(client: Client, address: Address) -> Iterator[Callable[[Load], Sample]]:
    """Give what runs a load in a process of its own, and raises what the client raises, or BrokenProcessPool."""
    with ProcessPoolExecutor(1, _context) as process:
        yield lambda load: process.submit(run, client, address, load).result()
