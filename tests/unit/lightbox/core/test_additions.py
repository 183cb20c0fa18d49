"""The features' requirements at a start, and their additions to the supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.core.additions import Additions
from lightbox.core.start import Start
from lightbox.features import FEATURES, enabled, prepare, wants
from lightbox.model.plan import ServingPlan
from lightbox.serving.settings_loading import load_settings

GRPC = {"LIGHTBOX_KSERVE_GRPC_PORT": "8081"}  # unopened


def added(settings: Settings) -> Additions:
    with RunDir() as run_dir:
        plan = ServingPlan(models={}, default_model=None, model_servers=())
        return prepare(Start(settings, plan, run_dir, [feature.name for feature in enabled(settings)]))


@pytest.fixture(autouse=True)
def _run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.parametrize(
    ("environ", "children", "workers"),
    [
        ({}, [], 0),
        (GRPC, ["grpc_front"], 1),
        ({"LIGHTBOX_STREAMS": "true"}, ["streams"], 0),
        (GRPC | {"LIGHTBOX_STREAMS": "true"}, ["grpc_front", "streams"], 1),
    ],
)
def test_processes_and_those_of_them_that_answer_requests(
    environ: dict[str, str], children: list[str], workers: int
) -> None:
    found = added(load_settings(environ))
    assert ([spec.name for spec in found.children], found.workers) == (children, workers)


def test_ports_are_reported_before_a_start_and_in_it() -> None:
    settings = load_settings(GRPC)
    assert [port.number for port in wants(settings).ports] == [8081]  # unopened
    assert added(settings).ports == wants(settings).ports
    assert wants(load_settings({})).ports == []


def test_metrics_are_shown_of_features_that_are_off() -> None:
    found = added(load_settings({}))
    measured = found.measure()
    assert set(measured) == {metric for feature in FEATURES for metric in feature.metrics}
    assert [value for value in measured.values() if value not in (0, {})] == []


def test_the_models_that_a_model_server_is_to_have_are_the_plans_but_where_a_feature_loads_them() -> None:
    assert added(load_settings({})).served.note == ""
    assert "multi-model mode" in added(load_settings({"SAGEMAKER_MULTI_MODEL": "true"})).served.note


def test_what_is_missing_without_nginx_is_said_of_features_that_are_off_too() -> None:
    found = added(load_settings({}))
    assert sorted(found.without_nginx) == ["gRPC port", "keys", "streams"]
    assert found.direct == ["/invocations"]
