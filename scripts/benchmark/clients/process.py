"""Runs a client in a process of its own, told what to do over a pipe."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from types import TracebackType

from benchmark.clients.base import Client, Load, Sample, Session
from benchmark.servers.address import Address

_context = multiprocessing.get_context("forkserver")
"""Not fork: gRPC's and boto3's threads do not survive one, and a client must not carry its parent's memory.

The fork server has imported what clients need and opened nothing: a run starts a hundred of them, each in a moment.
"""
_context.set_forkserver_preload([__name__, "boto3", "grpc", "numpy", "PIL.Image", "lightbox.tfs_wire.messages"])


class ClientFailed(Exception):
    """The client's process could not do its work; the message says why."""


class ClientProcess:
    """A client that has connected and waits for loads. Use as a context manager."""

    def __init__(self, client: Client, address: Address) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=_serve, args=(theirs, client, address), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def run(self, load: Load) -> Sample:
        """Run a load and return what it gave; raise ClientFailed."""
        try:
            self._pipe.send(load)
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise ClientFailed(f"the client's process ended: {error}") from error
        if isinstance(answer, Sample):
            return answer
        raise ClientFailed(str(answer))


def _serve(pipe: Connection, client: Client, address: Address) -> None:
    session: Session | None = None
    while True:
        try:
            load = pipe.recv()
        except EOFError:
            break
        try:
            session = session or client.open(address)
            pipe.send(session.run(load))
        except Exception as error:  # the parent must hear of it, whatever it is
            pipe.send(f"{type(error).__name__}: {error}")
    if session:
        session.close()
