"""A connection on which a call met its deadline keeps no later call waiting: half a frame may have spoilt it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from lightbox.base.errors import DeadlineExceeded, LightboxError, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.transports.grpc import GrpcTransport, RenewedChannel
from lightbox.transports.model_management import ModelStates
from lightbox.transports.model_status import ModelStatus
from support.model_service import ScriptedServer, serving
from support.patience import PATIENCE

HALF_A_FRAME = b"\x00\x20\x00\x00\x00\x00\x00\x00\x01"
"""The header of 8 KiB of data of stream 1."""
SECONDS = 1.0
"""Of a call that waits in vain."""


@pytest.fixture
def spoilt() -> threading.Event:
    return threading.Event()


@pytest.fixture
def target(tmp_path: Path, spoilt: threading.Event) -> Iterator[str]:
    """The address of a server whose first connection can be spoilt."""
    server = ScriptedServer()
    server.say({7: "START"})
    with serving(server, tmp_path / "server"), passing(tmp_path / "server", spoilt) as address:
        yield address


@contextmanager
def passing(server: Path, spoilt: threading.Event) -> Iterator[str]:
    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=pass_on, args=(listener, server, spoilt, opened))
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def pass_on(listener: socket.socket, address: Path, spoilt: threading.Event, opened: ExitStack) -> None:
    with suppress(OSError):  # until the listener is shut
        for number in count():
            caller = opened.enter_context(listener.accept()[0])
            server = opened.enter_context(socket.socket(socket.AF_UNIX))
            server.connect(str(address))
            threading.Thread(target=copy, args=(caller, server, None), daemon=True).start()
            back = (server, caller, None if number else spoilt)
            threading.Thread(target=copy, args=back, daemon=True).start()


def copy(source: socket.socket, target: socket.socket, spoilt: threading.Event | None) -> None:
    """Pass bytes on; once ``spoilt`` is set, only half a frame each time."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(HALF_A_FRAME if spoilt and spoilt.is_set() else data)


def test_a_call_of_a_transport(target: str, spoilt: threading.Event) -> None:
    with closing(GrpcTransport(target)) as transport:

        def call(seconds: float) -> None:
            transport.signature("m", None, "serving_default", RequestContext(seconds))

        with pytest.raises(LightboxError, match="Method not found"):  # an answer: this server has no other
            call(PATIENCE)
        spoilt.set()
        with pytest.raises(DeadlineExceeded):
            call(SECONDS)
        with pytest.raises(LightboxError, match="Method not found"):
            call(PATIENCE)


def test_the_states_of_models(target: str, spoilt: threading.Event, tmp_path: Path) -> None:
    answering = AnsweringServers([ModelServerAddress(grpc_socket=tmp_path / "server")])
    with closing(RenewedChannel(target)) as channel:
        states = ModelStates([channel], answering)
        assert states.is_loading("m", 7, RequestContext(PATIENCE))
        spoilt.set()
        with pytest.raises(Unavailable, match="busy"):
            states.is_loading("m", 7, RequestContext(SECONDS))
        assert states.is_loading("m", 7, RequestContext(PATIENCE))


def test_what_the_supervisor_asks(target: str, spoilt: threading.Event) -> None:
    async def ask() -> None:
        status = ModelStatus(target)
        assert await status.versions("m")
        spoilt.set()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await status.versions("m")
        assert await status.versions_in_time("m")
        await status.close()

    asyncio.run(ask())
