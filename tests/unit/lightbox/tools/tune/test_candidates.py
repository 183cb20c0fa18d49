"""The candidates that the search tries for given settings."""

from __future__ import annotations

import importlib.util
import os

import pytest

from lightbox.serving.settings_loading import load_settings
from lightbox.tools.tune import candidates
from lightbox.tools.tune.candidates import PARAMETERS, combined, single_changes


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "available_cores", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


GIVEN = {"SAGEMAKER_GUNICORN_WORKERS": "4", "LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_ENGINE": "tensorflow"}
"""Settings of the baseline, whatever model server is on PATH."""


def tried(clients: int = 16, **environ: str) -> list[str]:
    given = GIVEN | environ
    return [str(candidate) for candidate in single_changes(load_settings(given), clients)]


def test_every_knob_is_turned_once_before_any_is_turned_twice() -> None:
    first = single_changes(load_settings(GIVEN), 16)[: len(PARAMETERS)]
    assert [candidate.changes[0].parameter for candidate in first] == list(PARAMETERS)


def test_every_candidate_is_valid_and_differs_from_the_present_settings() -> None:
    for present in ({}, {"SAGEMAKER_TFS_ENABLE_BATCHING": "true", "LIGHTBOX_TRANSPORT": "rest"}):
        settings = load_settings(present)
        for candidate in single_changes(settings, 16):
            changed = load_settings(present | candidate.environ)
            (parameter,) = [change.parameter for change in candidate.changes]
            assert getattr(changed, parameter) != getattr(settings, parameter)


def test_in_a_container_the_quota_s_cores_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert "SAGEMAKER_TFS_INTRA_OP_PARALLELISM=4" in tried()


def test_batching_is_switched_off_where_it_is_on() -> None:
    on = [one for one in tried() if "ENABLE_BATCHING" in one]
    assert len(on) == 2
    assert all("SAGEMAKER_TFS_ENABLE_BATCHING=true SAGEMAKER_TFS_MAX_BATCH_SIZE=8" in one for one in on)
    assert "SAGEMAKER_TFS_ENABLE_BATCHING=false" in tried(SAGEMAKER_TFS_ENABLE_BATCHING="true")


def test_the_other_engine_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried()[0] == "LIGHTBOX_ENGINE=auto"
    assert not [one for one in tried(LIGHTBOX_ENGINE="") if "ENGINE" in one], "auto has compared them"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not [one for one in tried() if "ENGINE" in one]


def test_the_other_transport_is_tried() -> None:
    assert "LIGHTBOX_TRANSPORT=rest,local" in tried()
    assert "LIGHTBOX_TRANSPORT=rest,grpc" in tried(LIGHTBOX_TRANSPORT="grpc,rest")
    assert "LIGHTBOX_TRANSPORT=rest" in tried(LIGHTBOX_TRANSPORT="grpc")
    assert "LIGHTBOX_TRANSPORT=local" in tried(PREDICT_USING_GRPC="false")


def test_the_better_value_of_a_knob_is_combined_with_those_of_others() -> None:
    by_text = {str(one): one for one in single_changes(load_settings(GIVEN), 16)}
    names = ("SAGEMAKER_GUNICORN_WORKERS=2", "SAGEMAKER_TFS_INTRA_OP_PARALLELISM=1", "SAGEMAKER_GUNICORN_WORKERS=1")
    together = combined([by_text[name] for name in names])
    assert str(together) == "SAGEMAKER_TFS_INTRA_OP_PARALLELISM=1 SAGEMAKER_GUNICORN_WORKERS=2"
