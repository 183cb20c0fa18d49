"""/openapi.json over a fake model server: it is complete, and the app's responses match it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from lightbox.base.errors import STATUS_OF_CODE, Status
from lightbox.features import FEATURES
from lightbox.features.openapi.document import views
from lightbox.model.options import ModelOptions
from lightbox.nginx.configuration import render
from lightbox.serving.settings_loading import load_settings
from support.described_apps import ON, Document, app_of, document_of
from support.openapi import problems
from support.parameters import each

pytestmark = pytest.mark.extended

MULTI = ON | {"SAGEMAKER_MULTI_MODEL": "true"}
SESSIONS = {"LIGHTBOX_SESSIONS": "true"}
SECURED = {"LIGHTBOX_AUTH_URL": "http://auth"}
EVERYTHING = MULTI | SESSIONS | {"LIGHTBOX_TFS_API": "true", "LIGHTBOX_PAGE": "true", "LIGHTBOX_STREAMS": "true"}


SIGNS = {"sessions": "Session", "open_inference": "/v2", "multi_model": "Target-Model", "tfs_api": "/v1/"}
"""Texts of the document that belong to one feature each."""
ALL = {"mean": ModelOptions(), "detector": ModelOptions(), "two": ModelOptions()}


@each("environ", [ON, MULTI | SESSIONS, MULTI | SECURED])
def test_it_is_openapi(environ: Mapping[str, str]) -> None:
    document = document_of(app_of(ALL, environ))
    assert document["openapi"].startswith("3.1.")
    assert problems(document) == []


def test_without_the_setting_there_is_no_such_route() -> None:
    answer = app_of(ALL, {}).test_client().get("/openapi.json")
    assert (answer.status_code, answer.get_json()["code"]) == (404, "route_not_found")


@pytest.mark.parametrize("environ", [ON, MULTI], ids=["fixed", "multi-model"])
def test_each_route_of_the_app_is_there(environ: Mapping[str, str]) -> None:
    app = app_of(ALL, environ)
    paths = document_of(app)["paths"]
    absent = set()
    for rule in app.url_map.iter_rules():
        pattern = re.sub(r"<[^>]+>", r"[^/]+", rule.rule)
        methods = {method.lower() for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
        documented = {method for path, item in paths.items() if re.fullmatch(pattern, path) for method in item}
        if not rule.rule.startswith("/internal/") and not methods <= documented:
            absent.add(rule.rule)
    # Without multi-model mode, these routes refuse every request.
    fixed = {"/v2/repository/models/<model>/load", "/v2/repository/models/<model>/unload"}
    assert absent == (set() if environ is MULTI else fixed)


def undescribed(app: Flask) -> list[str]:
    """Return the routes whose views are not ``described``, or have no docstring; the page's are for itself alone."""
    found = [(f"{method} {rule}", reply) for rule, method, _, reply in views(app) if not rule.startswith("/ui/")]
    return [route for route, reply in found if reply is None or not reply.summary]


def test_each_route_describes_itself() -> None:
    app = app_of(ALL, EVERYTHING)
    assert len([*views(app)]) > 30
    assert undescribed(app) == []


OTHER_LOCATIONS = {
    "/": "to the workers, or the page",
    "/internal/": "of the supervisor",
    "^/models(/[^/]+)?$": "to the workers",
    "/ui": "the page",
    "/ui/": "files of the page",
    "/ui/start.json": "of the page",
    "/invocations-bidirectional-stream": "WebSockets",
}
"""Locations that nginx answers or passes on and that are not operations."""


def test_each_location_of_nginx_is_described_or_no_operation(tmp_path: Path) -> None:
    start: Any = SimpleNamespace(run_dir=SimpleNamespace(path=tmp_path), address=str, settings=load_settings({}))
    parts = [feature.nginx(start) for feature in FEATURES]
    probes = [path for feature in FEATURES for path in feature.probes(start.settings)]
    conf = render(load_settings({}), tmp_path, {"SIDECAR": "a", "HEALTH": "b"}, 1 << 28, parts=parts, probes=probes)
    locations = {path for path in re.findall(r"location (?:\S+ )?([/^]\S*) \{", conf) if not path.startswith("/nginx-")}
    app = app_of(ALL, EVERYTHING)
    paths = document_of(app)["paths"]
    assert locations - OTHER_LOCATIONS.keys() - paths.keys() == set()
    assert OTHER_LOCATIONS.keys() <= locations
    workers = {re.sub(r"<(\w+)>", r"{\1}", rule.rule) for rule in app.url_map.iter_rules()}
    front = {path for path in paths if path not in workers and not path.startswith("/v2/models/")}
    assert front == locations - OTHER_LOCATIONS.keys()


def of_sessions(document: Document, path: str) -> tuple[set[str], set[str], bool]:
    """Return the session headers of a POST's request and response, and whether the request requires a body."""
    post = document["paths"][path]["post"]
    parameters = {found.get("$ref", "").rpartition("/")[2] for found in post["parameters"]}
    named = parameters, post["responses"]["200"]["headers"].keys()
    sent, got = ({name for name in names if "Session" in name} for names in named)
    return sent, got, post["requestBody"]["required"]


@pytest.mark.parametrize("environ", [ON, MULTI], ids=["fixed", "multi-model"])
def test_sessions_are_there_where_they_are_served(environ: Mapping[str, str]) -> None:
    without, document = (document_of(app_of(ALL, {**environ, **more})) for more in ({}, SESSIONS))
    of_sagemaker = {path for path in document["paths"] if "invo" in path}
    assert len(of_sagemaker) == (4 if environ is MULTI else 6), "three, and one for each model or for any"
    id_, new, closed = (f"X-Amzn-SageMaker-{name}" for name in ("Session-Id", "New-Session-Id", "Closed-Session-Id"))
    for path in of_sagemaker:
        assert of_sessions(document, path) == ({id_}, {new, closed}, False)
        assert of_sessions(without, path) == (set(), set(), True)
    assert of_sessions(document, "/v2/models/mean/infer") == (set(), set(), True)
    assert not [name for kind in without["components"].values() for name in kind if "Session" in name]


def refs(value: Any) -> set[str]:
    """Return the references in a part of a document."""
    if isinstance(value, list):
        return {ref for item in value for ref in refs(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*map(refs, value.values()))


@pytest.mark.parametrize("removed", [feature.name for feature in FEATURES if feature.name != "openapi"])
def test_what_a_feature_that_is_removed_has_is_not_there(removed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightbox.features.FEATURES", [feature for feature in FEATURES if feature.name != removed])
    document = document_of(app_of(ALL, EVERYTHING))
    named = {f"#/components/{kind}/{name}" for kind, found in document["components"].items() for name in found}
    assert refs(document) <= named
    text = json.dumps(document)
    for name, sign in SIGNS.items():
        assert (sign in text) is (name != removed)


def test_metrics_are_there_where_they_are_served() -> None:
    assert "/metrics" not in document_of(app_of(ALL, ON | {"LIGHTBOX_METRICS": "false"}))["paths"]


def test_operations_that_need_a_key_say_so() -> None:
    document, without = document_of(app_of(ALL, ON | SECURED)), document_of(app_of(ALL, ON))
    assert document["components"]["securitySchemes"].keys() == {"bearer", "basic", "key"}
    assert document["security"] == [{"bearer": []}, {"basic": []}, {"key": []}]
    operations = [(path, operation) for path, item in document["paths"].items() for operation in item.values()]
    open_to_all = {path for path, operation in operations if operation.get("security") == []}
    assert open_to_all == {"/ping", "/v2/health/live", "/v2/health/ready"}
    assert {
        path for path, operation in operations if not {"401", "403", "429"} <= operation["responses"].keys()
    } == open_to_all
    assert "security" not in without
    assert "securitySchemes" not in without["components"]


def codes(document: Document, used_only: bool) -> set[str]:
    used = {
        response["$ref"].rpartition("/")[2]
        for item in document["paths"].values()
        for operation in item.values()
        for response in operation["responses"].values()
        if "$ref" in response
    }
    found = set()
    for name, response in document["components"]["responses"].items():
        schema = response["content"]["application/json"]["schema"]
        if "allOf" in schema and (name in used or not used_only):
            found |= set(schema["allOf"][1]["properties"]["code"]["enum"])
    return found


def test_each_error_code_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    single, multi = document_of(app_of(ALL, ON)), document_of(app_of(ALL, MULTI | SECURED))
    assert codes(single, used_only=False) == STATUS_OF_CODE.keys()
    assert single["components"]["schemas"]["Error"]["properties"]["code"]["enum"] == [*STATUS_OF_CODE]
    # Every described path is a route that takes its method.
    assert codes(single, used_only=True) | codes(multi, used_only=True) == STATUS_OF_CODE.keys() - {
        "method_not_allowed"
    }
    monkeypatch.setitem(STATUS_OF_CODE, "on_fire", Status(418, "UNKNOWN"))
    assert "Error418" in document_of(app_of(ALL))["components"]["responses"]


@pytest.mark.parametrize(
    ("code", "any_request", "any_response"),
    [
        ("def postprocess(outputs, request):\n    return 'x', 'text/plain'\n", False, True),
        ("def preprocess(request):\n    return {}\n", True, False),
        ("def handler(data, context):\n    return b'', 'text/plain'\n", True, True),
    ],
    ids=["postprocess", "preprocess", "handler"],
)
def test_user_code_may_read_and_answer_anything(
    tmp_path: Path, code: str, any_request: bool, any_response: bool
) -> None:
    (tmp_path / "inference.py").write_text(code)
    document = document_of(app_of({"mean": ModelOptions()}, ON, tmp_path))
    invoke = document["paths"]["/invocations"]["post"]
    assert ("*/*" in invoke["requestBody"]["content"]) is any_request
    assert ("*/*" in invoke["responses"]["200"]["content"]) is any_response
    assert {"4XX", "5XX"} <= invoke["responses"].keys()


def test_a_model_that_cannot_answer_is_left_out() -> None:
    document = document_of(app_of({"mean": ModelOptions(), "gone": ModelOptions()}))
    assert "/v2/models/gone" not in document["paths"]
    assert "/v2/models/mean" in document["paths"]
