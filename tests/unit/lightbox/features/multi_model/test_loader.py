"""Loading and unloading with a fake model server: time limits, and files left behind."""

from __future__ import annotations

import io
import multiprocessing
import shutil
import signal
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from lightbox.base.error_texts import hide
from lightbox.base.errors import AlreadyLoaded, BadRequest, DeadlineExceeded, ModelNotFound, NoRoom, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model import loader as loader_module
from lightbox.features.multi_model.model_path import Source
from lightbox.features.multi_model.state import LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model_files.archives import unpacked_bytes
from support.model_loader import Listener, bare, loader
from support.models import GOLDEN
from support.onnx_models import write_classifier
from support.parameters import each
from support.patience import PATIENCE, poll


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
        assert (sorted(state.all()), list(state.leaving())) == ([], ["a"])
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
    assert (sorted(state.all()), dict(state.leaving())) == (["a"], {})
    assert list((run_dir / "models").iterdir()) == [second.model.base_path.parent]


def test_an_unload_waits_for_those_who_use_the_model(run_dir: Path, server: Listener) -> None:
    models, state = loader(run_dir, server), LoadedModels(run_dir)
    models.load("a", Source("half"), RequestContext(PATIENCE))
    with ThreadPoolExecutor(1) as pool:
        with state.using("a") as model, state.using("a"):
            unloaded = pool.submit(models.unload, "a", RequestContext(PATIENCE))
            for _ in poll():
                assert not unloaded.done()
                if not sorted(state.all()):
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


@each(("threads", "at_once"), [(1, 1), (2, 1), (5, 2)])
def test_loads_hold_half_of_the_threads(tmp_path: Path, threads: int, at_once: int) -> None:
    shutil.copytree(GOLDEN / "half_plus_two", tmp_path / "models" / "half")
    (tmp_path / "run").mkdir()
    held, entered = threading.Event(), threading.Semaphore(0)

    def check(_: PlannedModel) -> None:
        entered.release()
        held.wait(PATIENCE)

    models = loader(tmp_path / "run", Listener(), check=check, SAGEMAKER_GUNICORN_THREADS=str(threads))
    with ThreadPoolExecutor(at_once) as pool:
        try:
            names = [f"a{number}" for number in range(at_once)]
            loads = [pool.submit(models.load, name, Source("half"), RequestContext(PATIENCE)) for name in names]
            for _ in loads:
                assert entered.acquire(timeout=PATIENCE)
            for name in ("a0", "b"):  # one that is being loaded, and another
                with pytest.raises(Unavailable, match="loads hold half of the threads"):
                    models.load(name, Source("half"), RequestContext(PATIENCE))
        finally:
            held.set()
        assert [load.result().model.name for load in loads] == names
    assert models.load("b", Source("half"), RequestContext(PATIENCE)).model.name == "b"


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


def test_labels_for_all_models_are_left_out_where_they_do_not_fit(
    run_dir: Path, server: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    root = run_dir.parent / "models"
    for classes in (3, 4):
        write_classifier(root / f"of{classes}" / "1" / "model.onnx", classes=classes)
    models = loader(run_dir, server, LIGHTBOX_OPTIONS='{"labels": ["cat", "dog", "cow"]}')
    loaded = [models.load(name, Source(name), RequestContext(PATIENCE)) for name in ("of3", "of4")]
    assert [entry.model.options.labels for entry in loaded] == [("cat", "dog", "cow"), None]
    (warning,) = (record.getMessage() for record in caplog.records)
    assert warning.startswith("LIGHTBOX_OPTIONS: labels: expected a label for each of the 4 classes")


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


def test_the_error_of_a_second_load_names_the_first_without_the_folder(run_dir: Path, server: Listener) -> None:
    root = run_dir.parent / "models"
    models = loader(run_dir, server)
    hide({"LIGHTBOX_MODEL_DIR": root})
    try:
        models.load("a", Source(str(root / "half")), RequestContext(PATIENCE))
        with pytest.raises(AlreadyLoaded, match="Model a is already loaded, from 'LIGHTBOX_MODEL_DIR/half'"):
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
        models.load("a", Source("links.tar.gz", "TargetModel"), RequestContext(PATIENCE))
    with pytest.raises(DeadlineExceeded, match="TargetModel: the archive was not unpacked within 60 s"):
        models.load("a", Source("half.tar.gz", "TargetModel"), RequestContext(60, waited=61))
    assert list((run_dir / "models").iterdir()) == list(run_dir.glob("*.lock")) == []
    assert models.load("a", Source("half.tar.gz", "TargetModel"), RequestContext(PATIENCE)).url


def test_models_go_only_for_an_archive_that_then_fits(
    run_dir: Path, server: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each model of a TargetModel frees as many bytes as its files have."""
    models, state, folder = loader(run_dir, server), LoadedModels(run_dir), run_dir.parent / "models"
    with tarfile.open(folder / "more.tar.gz", "w:gz") as archive:
        archive.add(folder / "half", ".")
        pad = tarfile.TarInfo("1/pad")
        pad.size = 1 << 20
        archive.addfile(pad, io.BytesIO(bytes(pad.size)))
    size = unpacked_bytes(folder / "more.tar.gz", "url", RequestContext(PATIENCE))
    for name in ("a", "b"):
        models.load(name, Source("half"), RequestContext(PATIENCE), by="target")
    loaded, free = list(state.all().values()), 1000
    monkeypatch.setattr(loader_module, "most_unpacked", lambda _: 1 << 40)
    monkeypatch.setattr(
        loader_module, "available_bytes", lambda: free + sum(e.size for e in loaded if e.model.name not in state.all())
    )
    with pytest.raises(NoRoom) as lack:
        models.load("c", Source("more.tar.gz"), RequestContext(PATIENCE), by="target")
    assert lack.value.message == "url: the archive unpacks to 1 MiB, more than the memory that is left"
    assert lack.value.detail == "0 MiB are", "for the log alone"
    free = size - 2 * loaded[0].size
    with state.using("b"), pytest.raises(NoRoom):
        models.load("c", Source("more.tar.gz"), RequestContext(PATIENCE), by="target")
    assert sorted(state.all()) == ["a", "b"]
    free = size - loaded[0].size
    models.load("c", Source("more.tar.gz"), RequestContext(PATIENCE), by="target")
    assert sorted(state.all()) == ["b", "c"]
