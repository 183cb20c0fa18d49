"""SageMaker's target model on requests of the Open Inference Protocol."""

from __future__ import annotations

from typing import Any

import pytest

from lightbox.errors import BadRequest
from lightbox.protocols.open_inference.repository import Repository, read_headers
from lightbox.request_context import RequestContext
from support.patience import PATIENCE

TARGET = "X-Amzn-SageMaker-Target-Model"


class Loads:
    """Stands for what loads models in multi-model mode."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load(self, target: str, context: RequestContext) -> str:
        self.loaded.append(target)
        return target


def ask(model: str, target: str, targets: Any) -> str:
    headers = read_headers({TARGET: target}.get)
    return Repository(None, targets).target(model, headers, RequestContext(PATIENCE))  # type: ignore[arg-type]


def test_a_target_that_the_request_names_is_loaded() -> None:
    loads = Loads()
    assert ask("mean", "mean", loads) == "mean"
    assert ask("", "mean", loads) == "mean"
    assert ask("mean", "", loads) == "mean"
    assert loads.loaded == ["mean", "mean"]


def test_a_target_beside_the_model_that_is_named() -> None:
    with pytest.raises(BadRequest, match="expected 'mean', the model that the request names; got 'other'"):
        ask("mean", "other", Loads())


def test_fixed_models_have_no_targets() -> None:
    assert ask("mean", "other", None) == "mean"
