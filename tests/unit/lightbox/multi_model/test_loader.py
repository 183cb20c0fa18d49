"""Loading and unloading over a model server that only listens: how long it may take, and what is left behind."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tarfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lightbox.error_texts import hide
from lightbox.errors import AlreadyLoaded, BadRequest, DeadlineExceeded, LightboxError, ModelNotFound
from lightbox.multi_model.loader import CodeCheck, ModelLoader
from lightbox.multi_model.sources import Source
from lightbox.multi_model.state import LoadedModels
from lightbox.plan import PlannedModel
from lightbox.request_context import RequestContext
from lightbox.settings_loading import load_settings
from lightbox.transports.model_management import ServerState, VersionState
from lightbox.user_code.paths import UserCodeError
from support.patience import PATIENCE, poll

GOLDEN = Path(__file__).parents[3] / "contract" / "golden" / "models"


class Listener:
    """A model server that loads and unloads at once; notes how long it may take, refuses when it is to."""

    def __init__(self) -> None:
        self.allowed: list[float] = []
        self.refusal: LightboxError | None = None
        self.served = ""
        self.ends = True

    def reload(self, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
        self.allowed.append(context.remaining())
        if self.refusal is not None and "config {" in config:
            raise self.refusal
        self.served = config
        return [""]

    def states(self, model: str, context: RequestContext) -> list[ServerState]:
        if not self.ends and f'"{model}"' not in self.served:
            raise DeadlineExceeded("no")
        state = "AVAILABLE" if f'"{model}"' in self.served else "END"
        return [{1: VersionState(state), 2: VersionState(state)}]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "half_plus_two", tmp_path / "models" / "half")
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def server() -> Listener:
    return Listener()


def accept(_: PlannedModel) -> None:
    """Find nothing wrong with a model's code."""


def loader(run_dir: Path, server: Listener, code_problem: str | None = None, check: CodeCheck = accept) -> ModelLoader:
    def check_code(model: PlannedModel) -> None:
        check(model)
        if code_problem is not None:
            raise UserCodeError(f"{model.code_dirs[0]}: {code_problem}")

    environ = {"LIGHTBOX_MODEL_DIR": str(run_dir.parent / "models"), "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "1"}
    settings = load_settings(environ | {"SAGEMAKER_MULTI_MODEL": "true"})
    return ModelLoader(settings, run_dir, LoadedModels(run_dir), server, check_code)


def bare(run_dir: Path) -> Source:
    return Source(str(next((run_dir.parent / "models" / "half").iterdir()).relative_to(run_dir.parent / "models")))


def test_loading_may_take_longer_than_a_request(run_dir: Path, server: Listener) -> None:
    models = loader(run_dir, server)
    models.load("a", Source("half"), RequestContext(1, waited=1))
    models.unload("a", RequestContext(1, waited=1))
    assert len(server.allowed) == 3
    assert min(server.allowed) > 1


def test_what_a_load_made_goes_with_the_model(run_dir: Path, server: Listener) -> None:
    models = loader(run_dir, server)
    loaded = models.load("a", bare(run_dir), RequestContext(PATIENCE))
    assert (loaded.model.base_path / "1" / "saved_model.pb").exists()
    assert loaded.model.base_path.is_relative_to(run_dir)
    models.unload("a", RequestContext(PATIENCE))
    assert list((run_dir / "models").iterdir()) == []


def test_what_a_refused_load_made_goes_too(run_dir: Path, server: Listener) -> None:
    server.refusal = BadRequest("no")
    with pytest.raises(BadRequest, match="no"):
        loader(run_dir, server).load("a", bare(run_dir), RequestContext(PATIENCE))
    with pytest.raises(BadRequest) as refused:
        loader(run_dir, server, "it hangs").load("a", bare(run_dir), RequestContext(PATIENCE))
    assert refused.value.message == f"url: {bare(run_dir).path}/code: it hangs"
    assert list((run_dir / "models").iterdir()) == []


def test_a_name_may_have_255_characters(run_dir: Path, server: Listener) -> None:
    models, name = loader(run_dir, server), "n" * 255
    assert models.load(name, bare(run_dir), RequestContext(PATIENCE)).model.name == name
    models.unload(name, RequestContext(PATIENCE))
    assert list((run_dir / "models").iterdir()) == []
    with pytest.raises(BadRequest, match="at most 255 characters"):
        models.load(name + "n", bare(run_dir), RequestContext(PATIENCE))


def test_an_unload_that_did_not_end_in_time_can_be_asked_again(run_dir: Path, server: Listener) -> None:
    models, state = loader(run_dir, server), LoadedModels(run_dir)
    loaded = models.load("a", bare(run_dir), RequestContext(PATIENCE))
    server.ends = False
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            models.unload("a", RequestContext(PATIENCE))
        assert (state.names(), list(state.leaving())) == ([], ["a"])
    server.ends = True
    assert models.unload("a", RequestContext(PATIENCE)) == loaded
    with pytest.raises(ModelNotFound):
        models.unload("a", RequestContext(PATIENCE))
    assert (dict(state.leaving()), list((run_dir / "models").iterdir())) == ({}, [])


def test_a_load_mends_an_unload_that_did_not_end_in_time(run_dir: Path, server: Listener) -> None:
    models, state = loader(run_dir, server), LoadedModels(run_dir)
    models.load("a", bare(run_dir), RequestContext(PATIENCE))
    server.ends = False
    with pytest.raises(DeadlineExceeded):
        models.unload("a", RequestContext(PATIENCE))
    server.ends = True
    second = models.load("a", bare(run_dir), RequestContext(PATIENCE))
    assert (state.names(), dict(state.leaving())) == (["a"], {})
    assert list((run_dir / "models").iterdir()) == [second.model.base_path.parent]


def test_an_unload_waits_for_those_who_use_the_model(run_dir: Path, server: Listener) -> None:
    models, state = loader(run_dir, server), LoadedModels(run_dir)
    models.load("a", Source("half"), RequestContext(PATIENCE))
    with ThreadPoolExecutor(1) as pool:
        with state.using("a") as model, state.using("a"):
            unloaded = pool.submit(models.unload, "a", RequestContext(PATIENCE))
            for _ in poll():
                assert not unloaded.done()
                if not state.names():
                    break
            with pytest.raises(ModelNotFound), state.using("a"):
                pass
            assert (model.name, '"a"' in server.served) == ("a", True)
        assert unloaded.result().model == model
    assert '"a"' not in server.served
    assert list(run_dir.glob("*.lock")) == []


def test_an_unload_does_not_wait_for_those_who_never_end(run_dir: Path, server: Listener) -> None:
    models, state = loader(run_dir, server), LoadedModels(run_dir)
    models.load("a", Source("half"), RequestContext(PATIENCE))
    with state.using("a"), pytest.raises(DeadlineExceeded, match="'a' are still in progress"):
        models.unload("a", RequestContext(30, waited=60))
    assert '"a"' not in server.served
    models.load("a", Source("half"), RequestContext(PATIENCE))
    with state.using("a"):
        pass
    models.unload("a", RequestContext(PATIENCE))
    assert list(run_dir.glob("*.lock")) == []


@pytest.mark.extended
def test_whoever_dies_uses_the_model_no_more(run_dir: Path, server: Listener) -> None:
    models = loader(run_dir, server)
    models.load("a", Source("half"), RequestContext(PATIENCE))
    began, over = multiprocessing.Pipe()
    user = multiprocessing.get_context("spawn").Process(target=use_for_ever, args=(run_dir, over))
    user.start()
    assert began.recv()
    user.kill()
    user.join()
    models.unload("a", RequestContext(PATIENCE))


def use_for_ever(run_dir: Path, began: Connection) -> None:
    with LoadedModels(run_dir).using("a"):
        began.send(True)
        signal.pause()


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


def test_a_load_keeps_what_the_model_servers_may_read_still(run_dir: Path, server: Listener) -> None:
    models = loader(run_dir, server)
    models.load("a", bare(run_dir), RequestContext(PATIENCE))
    LoadedModels(run_dir).write({})  # the worker died before it wrote the list
    server.refusal = BadRequest("no")
    with pytest.raises(BadRequest, match="no"):
        models.load("a", bare(run_dir), RequestContext(PATIENCE))
    (kept,) = own_folders(run_dir)
    assert kept in (run_dir / "models.config").read_text()


def own_folders(run_dir: Path) -> list[str]:
    return sorted((folder.name for folder in (run_dir / "models").iterdir()), key=len)


def die_while_loading(run_dir: Path, name: str) -> None:
    def die(_: PlannedModel) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    loader(run_dir, Listener(), check=die).load(name, bare(run_dir), RequestContext(PATIENCE))


@pytest.mark.parametrize("url", ["a" * 300, "../models", "/", "a\x00b", None, 7, ""])
def test_paths_that_lead_nowhere_are_told_as_such(run_dir: Path, server: Listener, url: object) -> None:
    with pytest.raises(BadRequest, match="url: "):
        loader(run_dir, server).load("a", Source(url), RequestContext(PATIENCE))


@pytest.mark.parametrize("where", ["code/inference.py", "half/code/lightbox.json"])
def test_a_refusal_names_no_folder_of_the_machine(run_dir: Path, server: Listener, where: str) -> None:
    root = run_dir.parent / "models"
    models = loader(run_dir, server, code_problem=f"see {root / where} and {run_dir / 'packages'}")
    hide({"LIGHTBOX_MODEL_DIR": root, "TMPDIR": run_dir})
    try:
        for source in (Source("half"), Source("/etc")):
            with pytest.raises(BadRequest) as refused:
                models.load("a", source, RequestContext(PATIENCE))
            assert str(run_dir.parent) not in refused.value.message
    finally:
        hide({})


def test_a_second_load_is_told_the_first_without_the_folder(run_dir: Path, server: Listener) -> None:
    root = run_dir.parent / "models"
    models = loader(run_dir, server)
    hide({"LIGHTBOX_MODEL_DIR": root})
    try:
        models.load("a", Source(str(root / "half")), RequestContext(PATIENCE))
        with pytest.raises(AlreadyLoaded, match="is loaded already, from 'LIGHTBOX_MODEL_DIR/half'"):
            models.load("a", Source("half"), RequestContext(PATIENCE))
    finally:
        hide({})


def test_a_load_that_fails_gives_back_its_lock_and_its_files(run_dir: Path, server: Listener) -> None:
    root = run_dir.parent / "models"
    with tarfile.open(root / "half.tar.gz", "w:gz") as archive:
        archive.add(next((root / "half").iterdir()), "1")
    with tarfile.open(root / "links.tar.gz", "w:gz") as archive:
        archive.add(next((root / "half").iterdir()), "1")
        for index in range(100):
            link = tarfile.TarInfo(f"1/link{index}")
            link.type, link.linkname = tarfile.SYMTYPE, "."
            archive.addfile(link)
    models = loader(run_dir, server)
    with pytest.raises(BadRequest, match="TargetModel: the archive holds '1/link0', which is a symbolic link"):
        models.load("a", Source("links.tar.gz", "TargetModel", may_be_archive=True), RequestContext(PATIENCE))
    with pytest.raises(DeadlineExceeded, match="TargetModel: the archive was not unpacked within 60 s"):
        models.load("a", Source("half.tar.gz", "TargetModel", may_be_archive=True), RequestContext(60, waited=61))
    assert list((run_dir / "models").iterdir()) == list(run_dir.glob("*.lock")) == []
    assert models.load("a", Source("half.tar.gz", "TargetModel", may_be_archive=True), RequestContext(PATIENCE)).url
