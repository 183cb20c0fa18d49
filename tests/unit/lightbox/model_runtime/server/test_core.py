"""Conditions that a reload waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightbox.model_runtime.server.core import ServerCore
from lightbox.model_runtime.server.manager import LoadPolicy, Manager
from lightbox.model_runtime.server.model_config import ModelServerConfig, single_model
from lightbox.model_runtime.server.servable import State
from lightbox.model_runtime.wire.status import Code, StatusError
from support.patience import PATIENCE, poll


class Gate:
    """A loader that loads once ``free`` is set."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def check(self, servable: Any) -> None:
        """See Loader.check."""

    def load(self, servable: Any) -> Any:
        """See Loader.load."""
        assert self.free.wait(PATIENCE)
        return SimpleNamespace(close=lambda: None)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def core(gate: Gate) -> Iterator[ServerCore]:
    manager = Manager(gate, LoadPolicy(max_retries=0))  # type: ignore[arg-type]
    yield ServerCore(manager)
    gate.free.set()
    manager.stop()


@pytest.fixture
def config(tmp_path: Path) -> ModelServerConfig:
    """Return the config of model m with one version."""
    (tmp_path / "1").mkdir()
    return single_model("m", str(tmp_path))


def assert_late(core: ServerCore, config: ModelServerConfig) -> None:
    with pytest.raises(StatusError, match="Models are still being loaded") as caught:
        core.reload(config, 0.01)
    assert caught.value.code == Code.DEADLINE_EXCEEDED


def test_a_reload_looks_at_the_disk_itself(core: ServerCore, config: ModelServerConfig, gate: Gate) -> None:
    assert_late(core, config)
    assert [servable.version for servable in core.manager.states("m")] == [1]
    gate.free.set()
    assert core.settled(["m"], PATIENCE)
    core.reload(ModelServerConfig(), None)
    assert any(servable.state == State.END for _ in poll() for servable in core.manager.states("m"))
    core.reload(config, None)
    assert [servable.state for servable in core.manager.states("m")] == [State.AVAILABLE]


def test_a_reload_waits_for_the_one_before_it(core: ServerCore, config: ModelServerConfig, gate: Gate) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(core.reload, config, PATIENCE)
        assert any(core.poll() for _ in poll())
        assert_late(core, config)
        gate.free.set()
        first.result(PATIENCE)
    core.reload(config, PATIENCE)


def test_a_model_that_is_not_new_is_not_waited_for(core: ServerCore, config: ModelServerConfig) -> None:
    assert_late(core, config)
    core.reload(config, PATIENCE)


def test_versions_that_vanish_before_the_next_look_are_not_waited_for(
    core: ServerCore, config: ModelServerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, looked = [{}, {1: "1"}], threading.Event()

    def look(*_: Any) -> dict[int, str]:
        looked.set()
        return on_disk.pop()

    monkeypatch.setattr("lightbox.model_runtime.server.core.versions_on_disk", look)
    with ThreadPoolExecutor(1) as pool:
        reload = pool.submit(core.reload, config, PATIENCE)
        assert looked.wait(PATIENCE)
        assert core.poll() == []
        reload.result(PATIENCE)


def test_a_look_at_the_disk_ends_no_reload_before_its_model_is_there(
    core: ServerCore, config: ModelServerConfig, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every finished call wakes a waiting reload, also in the middle of a poll."""
    assert core.poll() == []
    looked: queue.Queue[bool] = queue.Queue()
    """The result of the reload's condition at each wake-up."""
    wait_for = core.manager.changed.wait_for

    def watched(predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        def asked() -> bool:
            found = predicate()
            looked.put(found)
            return found

        return wait_for(asked, timeout)

    monkeypatch.setattr(core.manager.changed, "wait_for", watched)
    with ThreadPoolExecutor(1) as pool:
        reload = pool.submit(core.reload, config, PATIENCE)
        assert any(core.poll() == ["m"] for _ in poll())

        def look(*_: Any) -> dict[int, str]:
            with core.manager.changed:
                looked.queue.clear()
                core.manager.changed.notify_all()
            assert not looked.get(timeout=PATIENCE)
            return {1: "1"}

        monkeypatch.setattr("lightbox.model_runtime.server.core.versions_on_disk", look)
        core.poll()
        gate.free.set()
        reload.result(PATIENCE)


# ------------------------------------------------ TensorFlow Serving's blocking (--as_tensorflow_serving)
