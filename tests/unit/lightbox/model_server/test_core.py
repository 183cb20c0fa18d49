"""Conditions that a reload waits for."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightbox.model_server.core import ServerCore
from lightbox.model_server.manager import LoadPolicy, Manager
from lightbox.model_server.model_config import ModelServerConfig, single_model
from lightbox.model_server.servable import State
from lightbox.tfs_wire.status import Code, StatusError
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
def core_as_real(gate: Gate) -> Iterator[ServerCore]:
    manager = Manager(gate, LoadPolicy(max_retries=0))  # type: ignore[arg-type]
    yield ServerCore(manager, as_tensorflow_serving=True)
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


def test_as_tensorflow_serving_nothing_is_loaded_before_the_next_look_at_the_disk(
    core_as_real: ServerCore, config: ModelServerConfig, gate: Gate
) -> None:
    gate.free.set()
    with ThreadPoolExecutor(1) as pool:
        reload = pool.submit(core_as_real.reload, config, None)
        assert any(core_as_real.with_versions() for _ in poll())
        assert core_as_real.manager.states("m") == []
        assert core_as_real.poll() == ["m"]
        reload.result(PATIENCE)
    assert [servable.version for servable in core_as_real.manager.states("m")] == [1]


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

    monkeypatch.setattr("lightbox.model_server.core.versions_on_disk", look)
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

        monkeypatch.setattr("lightbox.model_server.core.versions_on_disk", look)
        core.poll()
        gate.free.set()
        reload.result(PATIENCE)


# ------------------------------------------------ TensorFlow Serving's blocking (--as_tensorflow_serving)


class World:
    """A server that reproduces TensorFlow Serving's faults, with its model folders."""

    def __init__(self, folder: Path, gate: Gate) -> None:
        gate.free.set()
        self.folder = folder
        self.core = ServerCore(Manager(gate, LoadPolicy(max_retries=0)), as_tensorflow_serving=True)  # type: ignore[arg-type]
        self.pool = ThreadPoolExecutor(8)
        self.reloads: list[Future[None]] = []

    def add(self, *names: str) -> None:
        for name in names:
            (self.folder / name / "1").mkdir(parents=True)

    def reload(self, *names: str) -> Future[None]:
        """Request exactly these models, with a deadline that the server ignores."""
        config = ModelServerConfig()
        for name in names:
            path = str(self.folder / name)
            config.model_config_list.config.add(name=name, base_path=path, model_platform="tensorflow")
        self.reloads.append(self.pool.submit(self.core.reload, config, 0.001))
        return self.reloads[-1]

    def done(self, *reloads: Future[None]) -> None:
        """Poll the disk until these reloads end."""
        for reload in reloads:
            assert any(reload.done() for _ in poll(pause=0.01) if self.core.poll() is not None)
            reload.result()

    def blocks(self, *reloads: Future[None]) -> None:
        """Poll the disk several times and check that these reloads stay blocked."""
        for _ in range(5):
            self.core.poll()
            assert not any(reload.done() for reload in reloads)

    def state(self, name: str) -> str:
        return "".join(servable.state.name for servable in self.core.manager.states(name))


@pytest.fixture
def world(tmp_path: Path, gate: Gate) -> Iterator[World]:
    world = World(tmp_path, gate)
    world.add("x")
    world.done(world.reload("x"))
    yield world
    for name in "xyz":
        (tmp_path / name / "1").mkdir(parents=True, exist_ok=True)
    world.done(*world.reloads)
    world.core.manager.stop()


@pytest.mark.parametrize("empty", [False, True])
def test_a_model_without_versions_blocks_all_reloads_until_one_appears(world: World, empty: bool) -> None:
    if empty:
        (world.folder / "y").mkdir()
    first = world.reload("x", "y")
    while world.core.with_versions() != ["x"] or "y" not in world.core._models:
        pass
    world.add("z")
    behind = [world.reload("x"), world.reload("x", "z")]
    world.blocks(first, *behind)
    assert (world.state("x"), world.state("y"), world.state("z")) == ("AVAILABLE", "", "")
    (world.folder / "y").mkdir(exist_ok=True)
    (world.folder / "y" / "1").mkdir()
    world.done(first, *behind)
    world.done(world.reload("x"))
    assert any(world.state("y") == "END" for _ in poll(pause=0.01))


def test_a_missing_folder_of_a_loaded_model_blocks_reloads_that_name_it_beside_a_new_one(world: World) -> None:
    world.add("y")
    world.done(world.reload("x", "y"))
    shutil.rmtree(world.folder / "y")
    world.core.poll()
    assert world.state("y") == "AVAILABLE"
    world.done(world.reload("x", "y"))
    world.done(world.reload("x"))
    assert any(world.state("y") == "END" for _ in poll(pause=0.01))


def test_a_missing_folder_of_a_loaded_model_blocks_for_ever(world: World) -> None:
    world.add("y", "z")
    world.done(world.reload("x", "y"))
    shutil.rmtree(world.folder / "y")
    first = world.reload("x", "y", "z")
    while "z" not in world.core._models:
        pass
    world.blocks(first, world.reload("x"))
    assert (world.state("x"), world.state("y"), world.state("z")) == ("AVAILABLE", "AVAILABLE", "")
    world.add("y")
    world.done(first)


def test_by_default_a_missing_folder_blocks_nothing(tmp_path: Path, core: ServerCore, gate: Gate) -> None:
    gate.free.set()
    (tmp_path / "z" / "1").mkdir(parents=True)
    config = single_model("y", str(tmp_path / "missing"))
    config.model_config_list.config.add(name="z", base_path=str(tmp_path / "z"), model_platform="tensorflow")
    with ThreadPoolExecutor(1) as pool:
        reload = pool.submit(core.reload, config, None)
        assert any(reload.done() for _ in poll(pause=0.01) if core.poll() is not None)
        reload.result()
    core.reload(single_model("z", str(tmp_path / "z")), None)
