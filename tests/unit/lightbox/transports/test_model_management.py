"""Calls of ModelService."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from lightbox.base.errors import Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.transports.model_management import ModelManagement, ModelStates
from lightbox.transports.model_status import ModelStatus, ServerState, VersionStatus
from support.model_service import ScriptedServer, States, channel_to, serving
from support.patience import PATIENCE

ERROR = "DATA_LOSS: Can't parse /m/1/saved_model.pb"


async def versions_in_time(target: str) -> ServerState:
    status = ModelStatus(target)
    try:
        return await status.versions_in_time("m")
    finally:
        await status.close()


@pytest.mark.parametrize(
    ("said", "versions"),
    [
        ({2: "AVAILABLE", 1: f"END {ERROR}"}, {2: VersionStatus("AVAILABLE"), 1: VersionStatus("END", ERROR)}),
        ({}, {}),
        (None, None),
    ],
    ids=["known", "not known", "away"],
)
def test_waiting_and_other_callers_get_the_same_states(tmp_path: Path, said: States, versions: ServerState) -> None:
    server = ScriptedServer()
    server.say(said)
    with serving(server, tmp_path / "socket") as target:
        with grpc.insecure_channel(target) as channel:
            management = ModelManagement([channel], tmp_path, AnsweringServers())
            assert management.states("m", RequestContext(PATIENCE)) == [versions]
        assert asyncio.run(versions_in_time(target)) == versions


def test_a_server_that_is_known_not_to_answer_is_not_asked(tmp_path: Path) -> None:
    addresses = [ModelServerAddress(grpc_socket=tmp_path / name) for name in "ab"]
    with ExitStack() as open_:
        channels = [open_.enter_context(channel_to(ScriptedServer(), address.grpc_socket)) for address in addresses]
        channels[1] = open_.enter_context(hung(tmp_path / "hung"))
        states = ModelStates(channels, AnsweringServers(addresses))
        with pytest.raises(Unavailable, match="busy"):
            states.is_loading("m", 9, RequestContext(0.1))
        addresses[1].silent_mark.touch()
        assert not states.is_loading("m", 9, RequestContext(PATIENCE))


@contextmanager
def hung(path: Path) -> Iterator[grpc.Channel]:
    """A channel to a server that accepts connections and answers nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with grpc.insecure_channel(f"unix:{path}") as channel:
            yield channel


LOADING, AVAILABLE = VersionStatus("LOADING"), VersionStatus("AVAILABLE")
