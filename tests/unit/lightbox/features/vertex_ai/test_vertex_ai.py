"""The routes that Vertex AI may choose. Lightbox's own routes are excluded."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightbox.features import FEATURES, enabled
from lightbox.features.vertex_ai import VertexAi
from lightbox.model.options import ModelOptions
from lightbox.nginx.configuration import render
from lightbox.serving.settings_loading import SettingsError, load_settings
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_server
from support.parameters import each

HEALTH, PREDICT = "AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE"
(VERTEX_AI,) = (feature for feature in FEATURES if isinstance(feature, VertexAi))
OTHERS = {"/", "/v1"}
"""The path of the page, and that of TensorFlow Serving's API, whose responses have Vertex AI's form."""


def routes_of(**environ: str) -> tuple[set[str], set[str]]:
    """Return the paths that the feature adds to the supervisor and to a worker."""
    transport = mean_server()
    app = fake_app(transport, {"mean": ModelOptions()}, environ)
    added = {rule.rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith("Vertex AI.")}
    settings = load_settings(environ)
    assert (VERTEX_AI in enabled(settings)) == (HEALTH in environ)
    return set(VERTEX_AI.probes(settings)), added


@pytest.mark.parametrize(
    ("health", "predict"),
    [
        ("/ping", "/invocations"),
        ("/v2/health/ready", "/v2/models/mean/infer"),
        ("/v2/health/live", "/v2/models/mean/versions/1/infer"),
    ],
)
def test_routes_that_are_there_need_no_other_name(health: str, predict: str) -> None:
    assert routes_of(**{HEALTH: health, PREDICT: predict}) == (set(), set())


def test_without_nginx_workers_answer_the_probes() -> None:
    transport = mean_server()
    environ = {"LIGHTBOX_NGINX": "false", HEALTH: "/v2_health_live/v1.0"}
    client = fake_app(transport, {"mean": ModelOptions()}, environ).test_client()
    answers = {path: client.get(path) for path in ("/ping", environ[HEALTH], "/v2/health/live")}
    assert [answer.status_code for answer in answers.values()] == [200, 200, 200]
    assert answers[environ[HEALTH]].json == {"ready": True}


def test_without_the_variables_there_is_nothing() -> None:
    assert routes_of() == (set(), set())


@each("variable", [HEALTH, PREDICT])
@each(
    "route",
    [
        *("predict", "/", "//predict", "/predict/", "/a/../b", "/a/.", "http://a/b", "/a b", "/a?b", "/a#b"),
        *("/a;b", "/a{b}", "/$uri", '/"', "/'", "/\\", "/<name>", "/@PORT@", "/%41", "/a\nb", "/é", "/a*", "/(a)|b"),
        "/" + "a" * 1000,
    ],
)
def test_a_route_that_is_no_plain_path(variable: str, route: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({variable: route})
    (problem,) = caught.value.problems
    assert problem.startswith(f"{variable}: ")
    assert "expected a path such as /" in problem
    assert problem.endswith(f", got {route!r}")


@each(
    ("variable", "route"),
    [
        (HEALTH, "/metrics"),
        (HEALTH, "/invocations"),
        (PREDICT, "/ping"),
        (PREDICT, "/models/mean/invoke"),
        (PREDICT, "/v2/repository/index"),
        (PREDICT, "/endpoints/any/invocations"),
        (PREDICT, "/internal/probe"),
        (PREDICT, "/nginx-room"),
    ],
)
def test_a_route_that_is_anothers(variable: str, route: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"^{variable}: expected /\w+, or a path without routes of Lightbox below it"
    ):
        load_settings({variable: route})


def test_one_path_for_both() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({HEALTH: "/vertex", PREDICT: "/vertex"})
    assert caught.value.problems == [f"{PREDICT}: expected another path than {HEALTH}, got '/vertex'"]


def test_every_route_of_lightbox_is_taken(tmp_path: Path) -> None:
    environ = {"LIGHTBOX_OPENAPI": "true", "LIGHTBOX_TFS_API": "true", "LIGHTBOX_SESSIONS": "true"}
    app = fake_app(FakeTransport(), {"mean": ModelOptions()}, environ)
    start: Any = SimpleNamespace(run_dir=SimpleNamespace(path=tmp_path), address=str, settings=load_settings({}))
    probes = [path for feature in FEATURES for path in feature.probes(start.settings)]
    parts = [feature.nginx(start) for feature in FEATURES]
    conf = render(start.settings, tmp_path, {"SIDECAR": "a", "HEALTH": "b"}, 1 << 28, parts=parts, probes=probes)
    paths = {path.rstrip("/") or "/" for path in re.findall(r"location (?:\S+ )?(/\S*) \{", conf)}
    paths |= {rule.rule for rule in app.url_map.iter_rules()} | {"/models", "/v2/repository/models/x/load"}
    free = {path for path in paths if not VERTEX_AI.taken.fullmatch(path)}
    assert {re.sub(r"(?<=/v1).*", "", path) for path in free} == OTHERS
