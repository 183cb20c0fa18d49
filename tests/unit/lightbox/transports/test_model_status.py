"""The status of versions on model servers: both clients return the same, and one rule gives the result of a load."""

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
from lightbox.model.plan import Answering, ModelServerAddress
from lightbox.transports.model_management import ModelManagement, ModelStates
from lightbox.transports.model_status import Load, ModelStatus, ServerState, VersionStatus
from support.model_service import ScriptedServer, States, channel_to, serving
from support.parameters import each
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
            management = ModelManagement([channel], tmp_path, Answering())
            assert management.states("m", RequestContext(PATIENCE)) == [versions]
        assert asyncio.run(versions_in_time(target)) == versions


def test_a_server_that_is_known_not_to_answer_is_not_asked(tmp_path: Path) -> None:
    addresses = [ModelServerAddress(grpc_socket=tmp_path / name) for name in "ab"]
    with ExitStack() as open_:
        channels = [open_.enter_context(channel_to(ScriptedServer(), address.grpc_socket)) for address in addresses]
        channels[1] = open_.enter_context(hung(tmp_path / "hung"))
        states = ModelStates(channels, Answering(addresses))
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
FAILED = VersionStatus("END", ERROR)


@each(
    ("before", "seen", "has_failed"),
    [
        ({}, [{1: FAILED}], True),
        ({1: FAILED}, [{1: FAILED}], False),
        ({1: FAILED}, [{1: LOADING}, {1: FAILED}], True),
        ({1: VersionStatus("END", "INTERNAL: other")}, [{1: FAILED}], True),
        ({1: VersionStatus("END")}, [{1: FAILED}], True),
        (None, [None, {1: FAILED}], True),
        ({}, [{1: LOADING, 2: FAILED}], False),
        ({}, [{1: VersionStatus("END")}], False),
    ],
)
def test_an_end_is_this_loads_when_something_else_was_seen(
    before: ServerState, seen: list[ServerState], has_failed: bool
) -> None:
    load = Load([1], [before])
    failures = [load.failure([state]) for state in seen]
    assert failures[:-1] == [None] * (len(seen) - 1)
    assert failures[-1] == ((1, ERROR) if has_failed else None)


def test_an_end_is_this_loads_once_the_server_has_begun() -> None:
    load = Load([1], [{1: FAILED}, {1: FAILED}])
    assert load.failure([{1: FAILED}, {1: FAILED}]) is None
    load.note_started(1)
    assert load.failure([{1: FAILED}, None]) is None
    assert load.failure([{1: FAILED}, {1: FAILED}]) == (1, ERROR)


def test_a_load_is_done_when_every_server_has_every_version() -> None:
    load = Load([1, 2], [{}, {}])
    both: ServerState = {1: AVAILABLE, 2: AVAILABLE, 3: FAILED}
    states: list[ServerState] = [{1: AVAILABLE}, {1: AVAILABLE, 2: LOADING}, {}, None]
    assert [load.is_done([both, other]) for other in (both, *states)] == [True, False, False, False, False]
