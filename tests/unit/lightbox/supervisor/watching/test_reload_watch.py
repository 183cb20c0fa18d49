"""Stuck reloads: end a model server when its reload takes too long."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.supervisor.watching.reload_watch import MOST_LOADING, ReloadWatch
from lightbox.transports.model_status import ServerState, VersionStatus
from lightbox.transports.pending_reload import begin, find_pending

SECONDS = 60.0


class Server:
    """A model server that reports the states in ``says``; None means that it is down."""

    def __init__(self) -> None:
        self.says: list[str] | None = []

    async def versions_in_time(self, model: str) -> ServerState:
        assert model == "m"
        return None if self.says is None else {version: VersionStatus(state) for version, state in enumerate(self.says)}


class World:
    """Two model servers and their ReloadWatch."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.servers = [Server(), Server()]
        self.ended: list[int] = []
        self._begun: list[Callable[[], None]] = []
        self._watch = ReloadWatch(run_dir, self.servers, SECONDS, self.ended.append)  # type: ignore[arg-type]

    def begin(self) -> Callable[[], None]:
        """Begin a reload in the second server."""
        self._begun.append(begin(self.run_dir, 1, "load", "m", RequestContext(0)))
        return self._begun[-1]

    def look(self, *moments: float) -> list[int]:
        """Run the watch at these times (in seconds); return the servers ended so far."""
        for moment in moments:
            asyncio.run(self._watch.look(moment))
        return self.ended


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_server_that_takes_no_reload_is_ended_and_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.look(0, SECONDS, 2 * SECONDS) == []
    end = world.begin()
    assert world.look(1000, 1000 + SECONDS - 1) == []
    assert world.look(1000 + SECONDS) == [1]
    assert "model server 1 has not done the load of the model 'm' in 60 s" in capsys.readouterr().err
    end()
    assert world.look(1001 + SECONDS, 1002 + 2 * SECONDS) == [1]


def test_each_reload_has_its_own_time(world: World) -> None:
    end = world.begin()
    assert world.look(0, SECONDS - 1) == []
    end()
    world.begin()
    assert world.look(SECONDS, 2 * SECONDS - 1) == []
    assert world.look(2 * SECONDS) == [1]


@pytest.mark.parametrize("sentence", [["START"], ["AVAILABLE", "LOADING"]])
def test_a_server_that_loads_is_left_alone_for_longer(world: World, sentence: list[str]) -> None:
    world.begin()
    world.servers[1].says = sentence
    assert world.look(*range(0, int(MOST_LOADING * SECONDS), 10)) == []
    assert world.look(MOST_LOADING * SECONDS) == [1]


def test_what_waits_behind_a_load_has_its_time_when_that_has_ended(world: World) -> None:
    world.begin()
    world.servers[1].says = ["LOADING"]
    assert world.look(0, 5 * SECONDS) == []
    world.servers[1].says = ["END"]
    assert world.look(6 * SECONDS - 1) == []
    assert world.look(6 * SECONDS) == [1]


def test_a_server_that_is_away_has_its_time_when_it_is_back(world: World) -> None:
    world.begin()
    assert world.look(0) == []
    world.servers[1].says = None
    assert world.look(SECONDS, 2 * SECONDS) == []
    world.servers[1].says = []
    assert world.look(3 * SECONDS, 4 * SECONDS - 1) == []
    assert world.look(4 * SECONDS) == [1]


def test_one_reload_stands_at_a_time_and_none_of_the_dead(tmp_path: Path) -> None:
    hears, says = multiprocessing.Pipe(duplex=False)
    holder = multiprocessing.get_context("spawn").Process(target=stand_for_ever, args=(tmp_path, says))
    holder.start()
    assert hears.recv()
    found = find_pending(tmp_path, 0)
    assert found is not None
    assert (found.change, found.model, find_pending(tmp_path, 1)) == ("unload", "another", None)
    with pytest.raises(DeadlineExceeded):
        begin(tmp_path, 0, "load", "m", RequestContext(0))
    holder.kill()
    holder.join()
    assert find_pending(tmp_path, 0) is None
    begin(tmp_path, 0, "load", "m", RequestContext(0))()
    assert (find_pending(tmp_path, 0), list(tmp_path.iterdir())) == (None, [])


def stand_for_ever(run_dir: Path, says: Connection) -> None:
    end = begin(run_dir, 0, "unload", "another", RequestContext(0))
    says.send(True)
    signal.pause()
    end()
