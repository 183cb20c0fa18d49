"""Several kinds of endpoints against their own /openapi.json, including each schema's boundary values."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import requests

from support.models import copy_golden
from support.openapi import drive, never_answered
from support.patience import PATIENCE
from support.stack import running

pytestmark = pytest.mark.timeout(3600)

ON = {"LIGHTBOX_OPENAPI": "true"}
POSTPROCESS = """
def postprocess(outputs, request):
    if request.custom_attributes:
        raise ValueError("the user's code fails")
    return {"values": [outputs["y"].tolist()]}
"""


def models(folder: Path, *more: str) -> Path:
    """Copy small models that accept any input of their signatures."""
    for name in ("half_plus_two", "image_mean", *more):
        copy_golden(name, folder / name)
    return folder


def refusals(statuses: Counter[tuple[str, int]]) -> set[int]:
    return {status for _, status in statuses if status >= 400}


def test_models_with_class_names(tmp_path: Path) -> None:
    folder = models(tmp_path / "models")
    (folder / "image_mean" / "code").mkdir()
    (folder / "image_mean" / "code" / "lightbox.json").write_text(json.dumps({"labels": ["red", "green", "blue"]}))
    environ = ON | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two"}
    with running(folder, tmp_path, **environ) as stack:
        # Its operations are those of the other model.
        paths = ("--exclude-path-regex", "^/v2/models/half_plus_two")
        statuses = drive(stack, tmp_path, "examples,coverage,fuzzing", 1, *paths)
    assert never_answered(statuses) == set()
    assert {400, 404, 415, 424} <= refusals(statuses)


def test_user_code(tmp_path: Path) -> None:
    folder = models(tmp_path / "models")
    (folder / "half_plus_two" / "code").mkdir()
    (folder / "half_plus_two" / "code" / "inference.py").write_text(POSTPROCESS)
    environ = ON | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two"}
    with running(folder, tmp_path, **environ) as stack:
        # The code fails on purpose: the declared status is 500.
        statuses = drive(stack, tmp_path, "examples,fuzzing", 2, "--exclude-checks", "not_a_server_error")
    assert {400, 424, 500} <= refusals(statuses)


def test_models_that_come_and_go(tmp_path: Path) -> None:
    folder = models(tmp_path / "models", "two_in_two_out")
    with running(folder, tmp_path, **ON, SAGEMAKER_MULTI_MODEL="true") as stack:
        for name in ("half_plus_two", "image_mean"):
            loaded = requests.post(f"{stack.url}/models", json={"model_name": name, "url": name}, timeout=PATIENCE)
            assert loaded.status_code == 200, loaded.text
        # The other paths are those of models that stay.
        paths = ("--include-path-regex", "^/(models|v2/repository)")
        statuses = drive(stack, tmp_path, "examples,coverage,fuzzing", 1, *paths)
    assert statuses["POST /models", 200] and statuses["POST /v2/repository/models/{model}/load", 200]
    assert statuses["POST /v2/repository/models/{model}/unload", 200] + statuses["DELETE /models/{name}", 200] > 0
    assert {400, 404, 409, 415} <= refusals(statuses)
