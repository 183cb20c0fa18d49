"""The tempting models: the server matches TensorFlow, and so does OpenVINO wherever ``auto`` accepts it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lightbox.model_runtime.engines.openvino import graph_check
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from support.stack import REPOSITORY
from support.tempting_models import MODELS, expected, tempting_models
from support.tempting_models.compared import compare
from support.tempting_models.measured import DIFFERENT
from support.tempting_models.serving import Served, differences, serving

pytestmark = pytest.mark.timeout(3600)

LET_THROUGH = {
    "float_functions.leaky_0 0": "the sign of zero",
    "nan_inside.inverse_zero 0": "the sign of zero",
    "rare_values.erf_small 0": "Erf of less than a millionth",
    "signed_zero_and_tiny.add_zero 0": "the sign of zero, numbers below 1.2e-38",
    "signed_zero_and_tiny.maximum 0": "the sign of zero",
    "signed_zero_and_tiny.negative 0": "the sign of zero",
    "signed_zero_and_tiny.relu 0": "the sign of zero",
    "signed_zero_and_tiny.times_minus 0": "the sign of zero",
}
"""Calls that OpenVINO may answer otherwise, and what is lost: docs/engines.md names it."""


@pytest.fixture(scope="module")
def models() -> Path:
    return tempting_models()


@pytest.fixture(scope="module")
def reference(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(models, tmp_path_factory.mktemp("reference"), "--engine=tensorflow") as found:
        yield found


@pytest.fixture(scope="module")
def auto(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with OpenVINO wherever ``auto`` found equal results, regardless of speed."""
    cache, folder = tmp_path_factory.mktemp("verdicts"), tmp_path_factory.mktemp("auto")
    compare(models, cache)
    with serving(models, folder, "--engine=auto", f"--engine_cache_dir={cache}") as found:
        yield found
    log = (folder / "stderr.log").read_text()
    assert log.count(": openvino (") > len(MODELS)
    assert "comparing OpenVINO with TensorFlow" not in log


@pytest.mark.parametrize("model", DIFFERENT)
def test_what_differs_is_refused(models: Path, model: str) -> None:
    """The check refuses all signatures with known differences between OpenVINO and TensorFlow."""
    refusals = graph_check.refusals(read_meta_graph(str(models / model / "1"), ["serve"]))
    assert [name for name in DIFFERENT[model] if refusals[name] is None] == []


def test_the_gate_is_no_wall(models: Path) -> None:
    """The check accepts most signatures: they resemble those of ordinary models."""
    refusals = [graph_check.refusals(read_meta_graph(str(models / model / "1"), ["serve"])) for model in MODELS]
    reasons = [reason for found in refusals for reason in found.values()]
    assert reasons.count(None) > len(reasons) / 3


@pytest.mark.parametrize("model", MODELS)
def test_tensorflow_answers_as_eager_tensorflow_does(models: Path, reference: Served, model: str) -> None:
    assert differences(model, expected(models / model), reference.answers(model)) == {}


@pytest.mark.parametrize("model", MODELS)
def test_what_was_found_to_be_equal_is_equal(reference: Served, auto: Served, model: str) -> None:
    assert differences(model, reference.answers(model), auto.answers(model)).keys() - LET_THROUGH == set()


def test_calls_of_all_shapes_at_the_same_time(reference: Served, auto: Served) -> None:
    def differing(model: str) -> dict[str, str]:
        return differences(model, wanted[model], auto.asked(model))

    wanted = {model: reference.answers(model) for model in ("convolutions", "layout", "reductions")}
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(differing, [*wanted] * 2))
    assert found == [{}] * len(found)


def test_what_is_let_through_is_seen_and_on_the_page(reference: Served, auto: Served) -> None:
    models = {call.partition(".")[0] for call in LET_THROUGH}
    found = {call for model in models for call in differences(model, reference.answers(model), auto.answers(model))}
    assert found == LET_THROUGH.keys()
    page = " ".join((REPOSITORY / "docs" / "engines.md").read_text().split())
    assert "the sign of a zero may be lost, numbers below 1.2e-38 may be 0, and `Erf` of less than a millionth" in page
