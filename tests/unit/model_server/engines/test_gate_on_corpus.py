"""The gate refuses what OpenVINO was seen to answer otherwise than TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_server.engines import gate
from model_server.engines.graph import read_meta_graph
from support.tempting_models import MODELS, tempting_models
from support.tempting_models.measured import DIFFERENT


@pytest.fixture(scope="module")
def models() -> Path:
    return tempting_models()


@pytest.mark.parametrize("model", DIFFERENT)
def test_what_differs_is_refused(models: Path, model: str) -> None:
    refusals = gate.refusals(read_meta_graph(str(models / model / "1"), ["serve"]))
    assert [name for name in DIFFERENT[model] if refusals[name] is None] == []


def test_the_gate_is_no_wall(models: Path) -> None:
    """Most signatures are like those of ordinary models."""
    refusals = [gate.refusals(read_meta_graph(str(models / model / "1"), ["serve"])) for model in MODELS]
    reasons = [reason for found in refusals for reason in found.values()]
    assert reasons.count(None) > len(reasons) / 3
