"""Pages of GET /models, and the list that workers share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from flask import Flask, g

from lightbox.base.errors import DeadlineExceeded, ModelNotFound, Unavailable
from lightbox.base.machine.shared_files import release
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.routes import MAX_LOAD_BYTES, PAGE_SIZE, multi_model_blueprint
from lightbox.features.multi_model.state import LoadedModel, LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.transports.fake import FakeTransport
from lightbox.transports.model_status import ServerState, VersionStatus
from support.fakes import fake_app
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


class LateLoader:
    """A model server that does not load in time."""

    def load(self, *_: object) -> LoadedModel:
        raise DeadlineExceeded("the model server did not load the model in time")

    unload = load


def test_a_late_load_is_408(tmp_path: Path) -> None:
    app = fake_app(FakeTransport(), {"a": ModelOptions()})
    state = LoadedModels(tmp_path)
    state.update("b", loaded=loaded("b"))
    blueprint = multi_model_blueprint(LateLoader(), state, lambda _: None)  # type: ignore[arg-type, return-value]
    app.register_blueprint(blueprint)
    late = app.test_client().post("/models", json={"model_name": "a", "url": "/a"})
    assert (late.status_code, late.get_json()["code"]) == (408, "deadline_exceeded")
    assert app.test_client().delete("/models/b").status_code == 504


class NothingThere:
    """A loader of a folder that holds no model."""

    def load(self, *_: object) -> LoadedModel:
        raise ModelNotFound("url: there is no model '/m/a'")


def test_errors_have_the_words_of_awss_container_in_them(tmp_path: Path) -> None:
    app = fake_app(FakeTransport(), {"a": ModelOptions()})
    blueprint = multi_model_blueprint(NothingThere(), LoadedModels(tmp_path), lambda _: None)  # type: ignore[arg-type, return-value]
    app.register_blueprint(blueprint)
    client = app.test_client()
    missing = client.post("/models", json={"model_name": "a", "url": "/m/a"})
    reply = "url: there is no model '/m/a'. Could not find valid base path /m/a for servable a"
    assert (missing.status_code, missing.get_json()["error"]) == (404, reply)
    for answer in (client.get("/models/a"), client.post("/models/a/invoke")):
        assert (answer.status_code, answer.get_json()["code"]) == (404, "model_not_found")
        assert answer.get_json()["error"].startswith("Model a is not loaded yet. POST /models loads a model; ")


class Quick:
    """A loader whose work is done. ``versions`` is the state that the model servers report."""

    def __init__(self, versions: ServerState) -> None:
        self.reply = versions

    def load(self, *_: object) -> LoadedModel:
        return loaded("a")

    unload = load

    def versions(self, *_: object) -> ServerState:
        return self.reply


def test_answers_carry_awss_keys_beside_sagemakers(tmp_path: Path) -> None:
    app = fake_app(FakeTransport(), {"a": ModelOptions()})
    state, loader = (
        LoadedModels(tmp_path),
        Quick({1: VersionStatus("END", "INTERNAL: no"), 2: VersionStatus("AVAILABLE")}),
    )
    state.update("a", loaded=loaded("a"))
    app.register_blueprint(multi_model_blueprint(loader, state, lambda _: None))  # type: ignore[arg-type, return-value]
    client, keys = app.test_client(), {"modelName": "a", "modelUrl": "/m/a"}
    assert client.post("/models", json={}).get_json() == keys | {"success": "Successfully loaded model a."}
    assert client.delete("/models/a").get_json() == keys | {"success": "Successfully unloaded model a."}
    assert client.get("/models").get_json() == {"models": [keys]}
    versions = [
        {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
        {"version": "1", "state": "END", "status": {"error_code": "INTERNAL", "error_message": "no"}},
    ]
    assert client.get("/models/a").get_json() == keys | {"model": {"model_version_status": versions}}
    loader.reply = None
    assert client.get("/models/a").get_json() == keys


def test_pages_hold_every_model_once(tmp_path: Path) -> None:
    state = LoadedModels(tmp_path)
    names = [f"m{index:03}" for index in range(2 * PAGE_SIZE + 5)]
    for name in names:
        state.update(name, loaded=loaded(name))
    app = Flask("pages")
    app.register_blueprint(multi_model_blueprint(None, state, lambda _: None))  # type: ignore[arg-type, return-value]

    @app.before_request
    def context() -> None:
        g.context = RequestContext(PATIENCE)

    seen, token, pages = [], None, 0
    while pages < 10:
        page = app.test_client().get("/models", query_string={"next_page_token": token} if token else {}).get_json()
        seen += [entry["modelName"] for entry in page["models"]]
        pages += 1
        token = page.get("next_page_token")
        if token is None:
            break
    assert (seen, pages) == (names, 3)


def test_a_load_needs_no_large_body(tmp_path: Path) -> None:
    app = fake_app(FakeTransport(), {"a": ModelOptions()})
    app.register_blueprint(multi_model_blueprint(Quick({}), LoadedModels(tmp_path), lambda _: None))  # type: ignore[arg-type, return-value]
    answer = app.test_client().post("/models", data=b"[" * (MAX_LOAD_BYTES + 1))
    assert (answer.status_code, answer.get_json()["error"]) == (
        413,
        "the body: expected at most 65536 bytes, got 65537",
    )


def test_a_model_file_beside_the_code_is_no_version(tmp_path: Path) -> None:
    model = loaded("a").model_copy(update={"model": PlannedModel(name="a", base_path=tmp_path, options=ModelOptions())})
    for folder, is_on_disk in (("code", False), ("1", True)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.onnx").touch()
        assert model.is_on_disk() is is_on_disk
