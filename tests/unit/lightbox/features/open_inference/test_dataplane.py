"""SageMaker's target model on requests of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightbox.base.errors import BadRequest
from lightbox.base.request_context import RequestContext
from lightbox.features.open_inference.dataplane import DataPlane
from lightbox.model.plan import PlannedModels, ServingPlan
from support.patience import PATIENCE

TARGET = "X-Amzn-SageMaker-Target-Model"


class Loads:
    """A fake loader for multi-model mode."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    @contextmanager
    def target(self, target: str, context: RequestContext, loads: bool) -> Iterator[str]:
        assert loads
        self.loaded.append(target)
        yield target


def ask(model: str, target: str, catalogue: Any) -> str:
    pipeline: Any = SimpleNamespace(catalogue=catalogue)
    held = DataPlane(pipeline, Path("/nowhere")).target(model, {TARGET: target}.get, RequestContext(PATIENCE))
    with held as found:
        return found


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
    assert ask("mean", "other", PlannedModels(ServingPlan(models={}, default_model=None, model_servers=()))) == "mean"
