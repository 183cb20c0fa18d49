"""The order of loads and unloads, and versions that are requested again before they are unloaded."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lightbox.model_runtime.server.manager import LoadPolicy, Manager
from lightbox.model_runtime.server.servable import Servable, State, moment
from lightbox.model_runtime.wire.status import Code, StatusError
from support.patience import PATIENCE


class Files:
    """A loader whose sessions hold only their path.

    Set ``free`` to let loads finish. Loads from the path ``broken`` fail.
    """

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.begun_loads: queue.Queue[str] = queue.Queue()
        self.broken = ""

    def check(self, servable: Servable) -> None:
        """See Loader.check."""

    def load(self, servable: Servable) -> Any:
        """See Loader.load."""
        self.begun_loads.put(servable.path)
        assert self.free.wait(PATIENCE)
        if servable.path == self.broken:
            raise StatusError(Code.DATA_LOSS, "broken")
        return SimpleNamespace(path=servable.path, close=lambda: None)


class Watched(threading.Condition):
    """A condition that calls ``look`` before a thread releases its lock."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], object] = lambda: None
        self._holds = threading.local()

    def __enter__(self) -> bool:
        entered = super().__enter__()
        self._holds.depth = getattr(self._holds, "depth", 0) + 1
        return entered

    def __exit__(self, *exc_info: Any) -> None:
        if self._holds.depth == 1:
            self.look()
        self._holds.depth -= 1
        super().__exit__(*exc_info)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def manager(files: Files) -> Iterator[Manager]:
    """Return a manager whose condition ``changed`` is a Watched."""
    manager = Manager(files, LoadPolicy(max_retries=0))  # type: ignore[arg-type]
    manager.changed = Watched()
    yield manager
    files.free.set()
    manager.stop()


def want(manager: Manager, *paths: str | None) -> None:
    for path in paths:
        manager.aspire("m", {1: path} if path else {})


def served(manager: Manager) -> str:
    assert manager.wait_until_settled(["m"], PATIENCE)
    servable, session = manager.enter("m", None)
    servable.leave()
    return str(session.path)  # type: ignore[attr-defined]


def test_it_is_not_settled_before_it_is_loaded_again(manager: Manager, files: Files) -> None:
    want(manager, "old")
    assert served(manager) == "old"
    running, _ = manager.enter("m", None)
    want(manager, None, "new")
    files.free.clear()
    settled: list[bool] = []
    manager.changed.look = lambda: settled.append(manager.wait_until_settled(["m"], 0))  # type: ignore[attr-defined]
    running.leave()
    assert [files.begun_loads.get(timeout=PATIENCE) for _ in range(2)] == ["old", "new"]
    assert settled
    assert not any(settled)


@pytest.mark.parametrize("wanted", ["new", "old"])
def test_other_files_while_the_old_are_loaded(manager: Manager, files: Files, wanted: str) -> None:
    files.free.clear()
    want(manager, "old", None, wanted)
    files.free.set()
    assert served(manager) == wanted


def test_another_path_for_what_is_wanted_changes_nothing(manager: Manager, files: Files) -> None:
    want(manager, "old")
    assert served(manager) == "old"
    want(manager, "new")
    assert served(manager) == "old"
    assert list(files.begun_loads.queue) == ["old"]


def test_as_in_tensorflow_serving_the_ports_wait_for_one_version_of_each_model(manager: Manager, files: Files) -> None:
    files.broken = "a/3"
    manager.first_only = True
    for name, newest in (("a", 3), ("b", 2)):
        manager.aspire(name, {version: f"{name}/{version}" for version in range(1, newest + 1)})
    assert manager.wait_until_settled(["a", "b"], PATIENCE)
    assert sorted(files.begun_loads.queue) == ["a/2", "a/3", "b/2"]
    assert [servable.state for servable in manager.states("a")] == [State.END, State.AVAILABLE, State.START]
    assert [servable.state for servable in manager.states("b")] == [State.AVAILABLE, State.START]
    manager.continue_in_steps()
    assert manager.wait_until_settled(["a", "b"], PATIENCE)
    assert list(files.begun_loads.queue)[3:] == ["b/1", "a/1"]


def test_the_newest_version_is_loaded_first_and_one_at_a_time(manager: Manager, files: Files) -> None:
    files.free.clear()
    manager.aspire("m", {1: "1", 3: "3", 2: "2"})
    assert files.begun_loads.get(timeout=PATIENCE) == "3"
    assert [servable.state for servable in manager.states("m")] == [State.LOADING, State.START, State.START]
    files.free.set()
    assert [files.begun_loads.get(timeout=PATIENCE) for _ in range(2)] == ["2", "1"]


def test_what_is_not_wanted_any_more_ends_without_being_loaded(manager: Manager, files: Files) -> None:
    files.free.clear()
    manager.aspire("other", {1: "other"})
    assert files.begun_loads.get(timeout=PATIENCE) == "other"
    want(manager, "old", None)
    with manager.changed:
        assert manager.changed.wait_for(lambda: manager.states("m")[0].state == State.END, PATIENCE)
    assert files.begun_loads.empty()


def test_an_end_is_reported_to_a_later_caller(manager: Manager) -> None:
    want(manager, "old")
    assert served(manager) == "old"
    since = moment()
    assert manager.first_settled("m", since) is None
    want(manager, None, "new")
    with manager.changed:
        assert manager.changed.wait_for(lambda: manager.first_settled("m", since) is not None, PATIENCE)
    assert served(manager) == "new"


def test_a_load_that_waits_for_its_next_attempt_lets_others_load(files: Files) -> None:
    manager = Manager(files, LoadPolicy(max_retries=1, retry_seconds=PATIENCE))  # type: ignore[arg-type]
    files.broken = "bad"
    manager.aspire("bad", {1: "bad"})
    assert files.begun_loads.get(timeout=PATIENCE) == "bad"
    want(manager, "good")
    assert served(manager) == "good"
    manager.aspire("bad", {})
    with manager.changed:
        assert manager.changed.wait_for(lambda: manager.states("bad")[0].state == State.END, PATIENCE)
    manager.stop()
