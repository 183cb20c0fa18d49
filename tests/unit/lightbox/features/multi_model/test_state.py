"""Pages of GET /models, and the list that workers share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lightbox.base.errors import DeadlineExceeded, ModelNotFound, Unavailable
from lightbox.base.machine.shared_files import release
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.state import LoadedModel, LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from support.patience import PATIENCE


def loaded(name: str, generation: str = "1") -> LoadedModel:
    model = PlannedModel(name=name, base_path=Path("/m") / name, options=ModelOptions())
    return LoadedModel(model=model, url=f"/m/{name}", generation=generation, path=Path("/m", name))


def test_a_model_that_is_being_loaded_is_not_missing(tmp_path: Path) -> None:
    loader, reader = LoadedModels(tmp_path), LoadedModels(tmp_path)
    with loader.loading("a", RequestContext(PATIENCE)):
        with pytest.raises(Unavailable, match="the model 'a' is being loaded; try again"):
            reader.find("a")
        with pytest.raises(ModelNotFound):
            reader.find("b")
    with pytest.raises(ModelNotFound):
        reader.find("a")


def test_names_are_updated_apart(tmp_path: Path) -> None:
    """The supervisor removes a model from the list while a worker adds another."""
    states = LoadedModels(tmp_path), LoadedModels(tmp_path)

    def update(number: int) -> None:
        states[number % 2].update(f"m{number}", loaded=loaded(f"m{number}"))
        if number % 3 == 0:
            states[0].update(f"m{number}", leaving=loaded(f"m{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(update, range(60)))
    numbers = {f"m{number}" for number in range(60)}
    left = {f"m{number}" for number in range(0, 60, 3)}
    assert (set(states[1].all()), set(states[1].leaving())) == (numbers - left, left)
    states[1].update("m0")
    assert set(states[0].leaving()) == left - {"m0"}


def test_a_use_that_began_before_its_model_was_kept_for_good_counts(tmp_path: Path) -> None:
    state, found = LoadedModels(tmp_path), loaded("a").model_copy(update={"by": "target"})
    state.update("a", loaded=found)
    with state.using("a"):
        state.update("a", loaded=found.model_copy(update={"by": "path"}))
        use = state.begin_use(found)
        assert use is not None
        release(use)
        with pytest.raises(DeadlineExceeded):
            state.wait_until_unused(found, RequestContext(0.1))


def test_a_model_that_is_made_ready_holds_up_no_other(tmp_path: Path) -> None:
    state, other = LoadedModels(tmp_path), LoadedModels(tmp_path)
    with state.loading("a", RequestContext(PATIENCE)):
        with other.loading("b", RequestContext(PATIENCE)), other.changing(RequestContext(PATIENCE)):
            pass
        with pytest.raises(Unavailable, match="'a' is being loaded"), other.loading("a", RequestContext(0.1)):
            pass
    with other.loading("a", RequestContext(PATIENCE)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_comes_and_goes_has_one_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightbox.base.machine.shared_files.LOCK_PAUSE_SECONDS", 0.0001)
    holders: list[int] = []

    def hold(_: int) -> int:
        with LoadedModels(tmp_path).loading("a", RequestContext(PATIENCE)):
            holders.append(1)
            together = len(holders)
            time.sleep(0.0005)
            holders.pop()
        return together

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(hold, range(300))) == {1}


def test_a_model_file_beside_the_code_is_no_version(tmp_path: Path) -> None:
    model = loaded("a").model_copy(update={"model": PlannedModel(name="a", base_path=tmp_path, options=ModelOptions())})
    for folder, is_on_disk in (("code", False), ("1", True)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.onnx").touch()
        assert model.is_on_disk() is is_on_disk
