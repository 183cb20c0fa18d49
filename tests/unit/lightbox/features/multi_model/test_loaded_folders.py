"""Folders that loads make and that others remove. A folder stays until the model server ends its model."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.model_path import Source
from lightbox.features.multi_model.state import LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.transports.model_status import ServerState, VersionStatus
from support.model_loader import Listener, bare, loader, own_folders
from support.patience import PATIENCE


@pytest.mark.extended
def test_a_load_removes_what_one_of_its_name_left_that_died(run_dir: Path, server: Listener) -> None:
    for name in ("a", "a-b"):
        dying = multiprocessing.get_context("spawn").Process(target=die_while_loading, args=(run_dir, name))
        dying.start()
        dying.join()
        assert dying.exitcode == -signal.SIGKILL
    assert len(own_folders(run_dir)) == 2
    loaded = loader(run_dir, server).load("a", bare(run_dir), RequestContext(PATIENCE))
    assert [folder.startswith("a-b-") for folder in own_folders(run_dir)] == [False, True]
    assert (loaded.model.base_path / "1" / "saved_model.pb").exists()


class Witness(Listener):
    """Ends a model some time after the reload, and records the folders that are missing before it reports END."""

    def __init__(self, served: str) -> None:
        super().__init__()
        self.served = served
        self.ending: set[str] = set()
        self.missed: set[str] = set()

    def reload(self, model: str, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
        self._look()
        self.ending = base_paths(self.served) - base_paths(config)
        return super().reload(model, config, context, wait_for_server)

    def states(self, model: str, context: RequestContext) -> list[ServerState]:
        self._look()
        if self.ending:
            self.ending = set()
            return [{1: VersionStatus("UNLOADING")}]
        return super().states(model, context)

    def _look(self) -> None:
        self.missed |= {path for path in base_paths(self.served) | self.ending if not Path(path).is_dir()}


def base_paths(config: str) -> set[str]:
    return set(re.findall(r'base_path: "([^"]+)"', config))


def test_what_a_server_was_called_for_stays_until_the_server_ends_it(run_dir: Path) -> None:
    """A worker is killed after the reload and before it writes the list. The next load of the name comes at once."""
    context = multiprocessing.get_context("spawn")
    hears, says = context.Pipe(duplex=False)
    dying = context.Process(target=die_when_the_server_is_called, args=(run_dir, says))
    dying.start()
    server = Witness(served=hears.recv())
    dying.join()
    assert dying.exitcode == -signal.SIGKILL
    (left,) = own_folders(run_dir)
    assert left in server.served
    loader(run_dir, server).load("a", bare(run_dir), RequestContext(PATIENCE))
    assert server.missed == set()
    assert left not in own_folders(run_dir)


def test_an_unloaded_models_folder_stays_until_the_server_ends_it(run_dir: Path) -> None:
    server = Witness("")
    models = loader(run_dir, server)
    models.load("a", bare(run_dir), RequestContext(PATIENCE))
    models.unload("a", RequestContext(PATIENCE))
    assert (server.missed, own_folders(run_dir)) == (set(), [])


def die_when_the_server_is_called(run_dir: Path, says: Connection) -> None:
    class Recorder(Listener):
        def reload(self, model: str, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
            if "config {" in config:
                says.send(config)
                os.kill(os.getpid(), signal.SIGKILL)
            return [""]

    loader(run_dir, Recorder()).load("a", bare(run_dir), RequestContext(PATIENCE))


class Hanging(Listener):
    """A model server that stops answering once a reload names a model."""

    def reload(self, model: str, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
        self.ends = self.ends and "config {" not in config
        if not self.ends:
            raise DeadlineExceeded("late")
        return super().reload(model, config, context, wait_for_server)


def test_what_a_server_may_still_be_loading_stays_until_a_later_load(run_dir: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        loader(run_dir, Hanging()).load("a", bare(run_dir), RequestContext(PATIENCE))
    assert len(own_folders(run_dir)) == 1
    second = loader(run_dir, Listener()).load("a", bare(run_dir), RequestContext(PATIENCE))
    assert list((run_dir / "models").iterdir()) == [second.model.base_path.parent]


def test_a_model_whose_folder_is_removed_can_be_loaded_from_elsewhere_and_unloaded(
    run_dir: Path, server: Listener
) -> None:
    models, root = loader(run_dir, server), run_dir.parent / "models"
    shutil.copytree(root / "half", root / "other")
    models.load("a", Source("half"), RequestContext(PATIENCE))
    shutil.rmtree(root / "half")
    assert models.load("a", Source("other"), RequestContext(PATIENCE)).url == "other"
    shutil.rmtree(root / "other")
    assert models.unload("a", RequestContext(PATIENCE)).url == "other"
    assert not LoadedModels(run_dir).all()


def test_a_version_that_comes_later_is_not_shown_to_the_servers(run_dir: Path, server: Listener) -> None:
    models, root = loader(run_dir, server), run_dir.parent / "models"
    base_path = models.load("a", Source("half"), RequestContext(PATIENCE)).model.base_path
    before = sorted(path.name for path in base_path.iterdir())
    shutil.copytree(root / "half" / before[0], root / "half" / "7")
    assert sorted(path.name for path in base_path.iterdir()) == before


def die_while_loading(run_dir: Path, name: str) -> None:
    def die(_: PlannedModel) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    loader(run_dir, Listener(), check=die).load(name, bare(run_dir), RequestContext(PATIENCE))
