"""Routes below /models: pages, errors and responses."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, g

from lightbox.base.errors import DeadlineExceeded, ModelNotFound
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.routes import MAX_LOAD_BYTES, PAGE_SIZE, multi_model_blueprint
from lightbox.features.multi_model.state import LoadedModel, LoadedModels
from lightbox.model.options import ModelOptions
from lightbox.transports.model_status import ServerState, VersionStatus
from support.fake_transport import FakeTransport
from support.fakes import fake_app
from support.patience import PATIENCE

from .test_state import loaded


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
    answer = client.get("/models/a")
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
