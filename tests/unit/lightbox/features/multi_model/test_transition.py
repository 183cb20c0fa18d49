"""Loading and unloading a model over a real channel, with servers that report states in every awkward order."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from lightbox.base.errors import BadRequest, DeadlineExceeded, NoRoom, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model import transition
from lightbox.features.multi_model.transition import Transition
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import AnsweringServers
from lightbox.supervisor.starting.model_server_config import model_config
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.pending_reload import find_pending
from support.model_service import Reload, ScriptedServer, States, channel_to
from support.patience import PATIENCE, poll

CORRUPT = "DATA_LOSS: Can't parse /m/1/saved_model.pb as binary proto"
FAILED = f"END {CORRUPT}"
TOO_EARLY = "1 model(s) did not become available: {{{name: m version: 1}}, }"
SAID_TO_FAIL = f"1 model(s) did not become available: {{{{{{name: m version: 1}} due to error: {CORRUPT}}}, }}"

OTHER = PlannedModel(name="other", base_path=Path("/other"), options=ModelOptions())
WITHOUT = model_config([OTHER])
WITH = model_config([OTHER, PlannedModel(name="m", base_path=Path("/m"), options=ModelOptions())])

Connect = Callable[..., Transition]


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    monkeypatch.setattr(transition, "PAUSE_SECONDS", 0.001)
    with ExitStack() as stack:
        number = count()

        def connected(*servers: ScriptedServer) -> Transition:
            channels = [stack.enter_context(channel_to(server, tmp_path / f"{next(number)}")) for server in servers]
            return Transition(ModelManagement(channels, tmp_path, AnsweringServers()), "m", WITHOUT)

        yield connected


def context() -> RequestContext:
    return RequestContext(PATIENCE)


class Patience(RequestContext):
    """Runs out once a server has had ``times`` requests for states since its reload number ``reloads``."""

    def __init__(self, server: ScriptedServer, reloads: int, times: int = 3) -> None:
        super().__init__(PATIENCE)
        self._server, self._reloads, self._times = server, reloads, times

    def remaining(self) -> float:
        over = len(self._server.reloads) == self._reloads and self._server.asked >= self._times
        return 0.0 if over else PATIENCE


def absent(*states: States) -> Reload:
    """Return the reload that begins every load, with the states that the server then reports."""
    return Reload("", states or ({},))


@pytest.mark.parametrize(
    "load",
    [
        Reload("", [{1: "AVAILABLE"}]),
        Reload("", [{2: "AVAILABLE", 1: "START"}, {2: "AVAILABLE", 1: "LOADING"}, {2: "AVAILABLE", 1: "AVAILABLE"}]),
        Reload(TOO_EARLY, [{1: "END"}, {1: "END"}, {1: "START"}, {1: "LOADING"}, {1: "AVAILABLE"}]),
        Reload(TOO_EARLY, [{1: "END"}, {1: "AVAILABLE"}]),
        Reload(TOO_EARLY, [{1: FAILED}, {1: FAILED}, {1: "START"}, {1: "AVAILABLE"}]),
        Reload(SAID_TO_FAIL.replace("name: m ", "name: other "), [{1: "LOADING"}, {1: "AVAILABLE"}]),
        Reload("", [{3: FAILED, 1: "AVAILABLE"}]),
    ],
    ids=[
        "at once",
        "second version",
        "too early",
        "too early, start unseen",
        "after a corrupt one",
        "other's",
        "older",
    ],
)
def test_a_load_waits_until_every_version_is_available(connect: Connect, load: Reload) -> None:
    versions = {max(load.states[-1] or {}), 1} - {3}
    old: States = {version: text for version, text in (load.states[0] or {}).items() if text.startswith("END")}
    server = ScriptedServer(absent(old), load)
    connect(server).load(WITH, versions, context())
    assert server.reloads == [["other"], ["other", "m"]]


@pytest.mark.parametrize(
    ("old", "load"),
    [
        ({}, Reload(SAID_TO_FAIL, [{1: FAILED}])),
        ({1: FAILED}, Reload(SAID_TO_FAIL, [{1: FAILED}])),
        ({1: FAILED}, Reload("", [{2: "AVAILABLE", 1: FAILED}])),
        ({1: FAILED}, Reload(TOO_EARLY, [{1: FAILED}, {1: "START"}, {1: FAILED}])),
        ({1: "END OUT_OF_RANGE: Read less bytes"}, Reload(TOO_EARLY, [{1: FAILED}])),
        ({1: "END"}, Reload(TOO_EARLY, [{1: "END"}, {1: FAILED}])),
    ],
    ids=["said", "said twice", "one of two versions", "the same again", "another error", "start unseen"],
)
def test_a_failed_load_is_reported_in_the_servers_words_and_undone(connect: Connect, old: States, load: Reload) -> None:
    server = ScriptedServer(absent(old), load, absent())
    with pytest.raises(BadRequest) as refused:
        connect(server).load(WITH, {1}, context())
    assert refused.value.message == f"the model cannot be loaded: version 1 ended with {CORRUPT}"
    assert server.reloads == [["other"], ["other", "m"], ["other"]]


def test_a_model_without_room_in_memory(connect: Connect) -> None:
    server = ScriptedServer(absent(), Reload("", [{1: "END RESOURCE_EXHAUSTED: OOM"}]), absent())
    with pytest.raises(NoRoom, match="RESOURCE_EXHAUSTED: OOM"):
        connect(server).load(WITH, {1}, context())


def test_a_server_without_descriptors_is_asked_again(connect: Connect) -> None:
    lacks = "END RESOURCE_EXHAUSTED: /models/m/1/saved_model.pb; Too many open files"
    server = ScriptedServer(absent(), Reload("", [{1: lacks}]), absent())
    with pytest.raises(Unavailable, match="too many open files for version 1 of the model; try again"):
        connect(server).load(WITH, {1}, context())


def test_what_an_earlier_call_has_left_ends_first(connect: Connect) -> None:
    left = absent({1: "AVAILABLE"}, {1: "UNLOADING"}, {1: "END"})
    server = ScriptedServer(left, Reload("", [{1: "AVAILABLE"}]))
    connect(server).load(WITH, {1}, context())
    assert server.reloads == [["other"], ["other", "m"]]
    slow = ScriptedServer(absent({1: "LOADING"}))
    with pytest.raises(DeadlineExceeded, match=f"was not unloaded within {PATIENCE:g} s"):
        connect(slow).load(WITH, {1}, Patience(slow, 1))
    assert slow.reloads == [["other"]]


@pytest.mark.parametrize("states", [None, {}], ids=["away", "started again"])
def test_a_server_that_ends_while_it_loads(connect: Connect, states: States) -> None:
    server = ScriptedServer(absent(), Reload("", [{2: "AVAILABLE", 1: "LOADING"}, states]), absent())
    with pytest.raises(Unavailable):
        connect(server).load(WITH, {1, 2}, context())
    dying = ScriptedServer(absent(), Reload("UNAVAILABLE", [None]), absent())
    with pytest.raises(Unavailable):
        connect(dying).load(WITH, {1}, context())
    assert server.reloads == dying.reloads == [["other"], ["other", "m"], ["other"]]


def test_every_server_must_have_every_version(connect: Connect) -> None:
    quick = ScriptedServer(absent(), Reload("", [{1: "AVAILABLE"}]))
    slow = ScriptedServer(absent({1: "END"}), Reload(TOO_EARLY, [{1: "END"}, {1: "LOADING"}, {1: "AVAILABLE"}]))
    connect(quick, slow).load(WITH, {1}, context())
    assert quick.reloads == slow.reloads == [["other"], ["other", "m"]]


def test_a_failure_of_one_server_is_undone_in_all(connect: Connect) -> None:
    well = ScriptedServer(absent(), Reload("", [{1: "AVAILABLE"}]), absent({1: "UNLOADING"}, {1: "END"}))
    ill = ScriptedServer(absent(), Reload(SAID_TO_FAIL, [{1: FAILED}]), absent())
    with pytest.raises(BadRequest):
        connect(well, ill).load(WITH, {1}, context())
    assert well.reloads == ill.reloads == [["other"], ["other", "m"], ["other"]]


def test_a_server_that_was_ready_and_is_started_again_while_another_loads(connect: Connect) -> None:
    lost = ScriptedServer(absent(), Reload("", [{1: "AVAILABLE"}, {}]), absent())
    slow = ScriptedServer(absent(), Reload(TOO_EARLY, [{1: "LOADING"}, {1: "AVAILABLE"}]), absent())
    with pytest.raises(Unavailable):
        connect(lost, slow).load(WITH, {1}, context())


@pytest.mark.parametrize(
    "states",
    [[{1: "LOADING"}], [{2: "AVAILABLE"}], [{2: "AVAILABLE", 1: "END"}]],
    ids=["loading", "a version missing", "a version gone"],
)
def test_a_load_that_does_not_end_is_undone(connect: Connect, states: list[States]) -> None:
    server = ScriptedServer(absent(), Reload(TOO_EARLY, states), absent())
    with pytest.raises(DeadlineExceeded, match=f"was not loaded within {PATIENCE:g} s; try again"):
        connect(server).load(WITH, {1, 2}, Patience(server, 2))
    assert server.reloads == [["other"], ["other", "m"], ["other"]]


class GivesUp(RequestContext):
    """Runs out once a server has received the model."""

    def __init__(self, moving: Transition, server: ScriptedServer) -> None:
        super().__init__(60)
        self._moving, self._server = moving, server

    def remaining(self) -> float:
        if not self._moving.reload_sent:
            return PATIENCE
        assert any("m" in self._server.reloads[-1] for _ in poll(pause=0.001))
        return 0.0


def test_a_reload_stands_until_the_server_answers_whoever_waits(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transition, "ROLLBACK_SECONDS", 0.0)
    answered = threading.Event()
    server = ScriptedServer(absent(), Reload("", [{1: "AVAILABLE"}], after=answered), absent({1: "END"}))
    moving = connect(server)
    with pytest.raises(DeadlineExceeded, match="did not change its models in time"):
        moving.load(WITH, {1}, GivesUp(moving, server))
    assert moving.reload_sent
    gc.collect()
    stands = find_pending(tmp_path, 0)
    assert stands is not None
    assert (stands.change, stands.model) == ("load", "m")
    with pytest.raises(DeadlineExceeded):
        moving.unload(RequestContext(0))
    assert (moving.reload_sent, server.reloads, find_pending(tmp_path, 0)) == (
        True,
        [["other"], ["other", "m"]],
        stands,
    )
    answered.set()
    moving.unload(RequestContext(PATIENCE))
    assert (moving.reload_sent, server.reloads[2:], find_pending(tmp_path, 0)) == (False, [["other"]], None)


def test_a_load_that_is_undone_is_not_reported_any_more(connect: Connect) -> None:
    failing = connect(ScriptedServer(absent(), Reload(SAID_TO_FAIL, [{1: FAILED}]), absent({1: FAILED})))
    with pytest.raises(BadRequest):
        failing.load(WITH, {1}, context())
    assert not failing.reload_sent
    hanging = connect(ScriptedServer(absent(), Reload(SAID_TO_FAIL, [{1: FAILED}]), Reload("DEADLINE_EXCEEDED", [{}])))
    with pytest.raises(BadRequest):
        hanging.load(WITH, {1}, context())
    assert hanging.reload_sent


def test_an_unload_waits_for_the_end_in_all_servers(connect: Connect) -> None:
    first = ScriptedServer(absent({2: "AVAILABLE", 1: "AVAILABLE"}, {2: "END", 1: "UNLOADING"}, {2: "END", 1: FAILED}))
    second = ScriptedServer(absent({1: "AVAILABLE"}, {1: "AVAILABLE"}, {1: "UNLOADING"}, {1: "UNLOADING"}, {1: "END"}))
    connect(first, second).unload(context())
    assert first.reloads == second.reloads == [["other"]]


@pytest.mark.parametrize(
    "server",
    [
        absent(),
        absent({1: "AVAILABLE"}, None),
        Reload("UNAVAILABLE", [None]),
        Reload(TOO_EARLY.replace("name: m ", "name: other "), [{1: "END"}]),
    ],
    ids=["not known", "away", "away at once", "says something of another model"],
)
def test_an_unload_of_what_is_gone_already(connect: Connect, server: Reload) -> None:
    connect(ScriptedServer(server)).unload(context())


def test_an_unload_that_does_not_end(connect: Connect) -> None:
    server = ScriptedServer(absent({1: "UNLOADING"}))
    with pytest.raises(DeadlineExceeded, match=f"was not unloaded within {PATIENCE:g} s; try again"):
        connect(server).unload(Patience(server, 1))
