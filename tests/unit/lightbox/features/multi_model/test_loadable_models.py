"""Models that a TargetModel loads: the threads that wait for one, and their names."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lightbox.base.errors import ModelLoading, ModelNotFound, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.loadable_models import LoadableModels
from lightbox.features.multi_model.state import LoadedModels
from lightbox.serving.settings_loading import load_settings
from support.model_loader import Listener, accept, loader
from support.models import GOLDEN
from support.patience import PATIENCE


def loadable(run_dir: Path, threads: int = 8, check: Callable[[Any], Any] = accept) -> LoadableModels:
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(run_dir.parent / "models"), "SAGEMAKER_MULTI_MODEL": "true"})
    own = loader(run_dir, Listener(), check=check, SAGEMAKER_GUNICORN_THREADS=str(threads))
    return LoadableModels(settings, own, LoadedModels(run_dir))


def use(models: LoadableModels, target: str) -> str:
    with models.target(target, RequestContext(PATIENCE), loads=True) as name:
        return name


def test_those_who_wait_for_one_load_hold_half_of_the_threads(run_dir: Path) -> None:
    held = threading.Event()
    models = loadable(run_dir, threads=4, check=lambda _: held.wait(PATIENCE))
    with ThreadPoolExecutor(4) as pool:
        uses = [pool.submit(use, models, target) for target in ("half", "./half", "././half", "half")]
        try:
            refused = list(islice(as_completed(uses, PATIENCE), 2))
        finally:
            held.set()
        for one in refused:
            with pytest.raises(Unavailable, match="loads hold half of the threads"):
                one.result()
        assert [one.result() for one in uses if one not in refused] == ["half", "half"]
    assert use(models, "half") == "half"


def test_a_target_that_is_unloaded_meanwhile_is_asked_for_again(run_dir: Path) -> None:
    """Its request holds it, but the list has it no more when the request looks it up."""
    models = loadable(run_dir)
    name = use(models, "half")
    with (
        pytest.raises(ModelLoading, match="the model 'half' is being unloaded; try again"),
        models.target("half", RequestContext(PATIENCE), loads=True),
    ):
        models.state.update(name, leaving=models.state.all()[name])
        models.find(name)
    assert use(models, "half") == name, "the next request loads it"
    with pytest.raises(ModelNotFound), models.target("half", RequestContext(PATIENCE), loads=True):
        models.find("another")


def test_a_name_that_no_one_can_choose_is_the_same_at_each_load(tmp_path: Path) -> None:
    names = []
    shutil.copytree(GOLDEN / "half_plus_two", tmp_path / "models" / "a" / "half")
    for run_dir in (tmp_path / "first", tmp_path / "second"):
        run_dir.mkdir()
        for target in ("a/half", "a/./half", f"file://{tmp_path}/models/a/half"):
            models = loadable(run_dir)
            names.append(use(models, target))
            models.loader.unload(names[-1], RequestContext(PATIENCE))
    assert [names.count(name) for name in names] == [3] * 6
    assert all(name.startswith("a-half-") for name in names)
