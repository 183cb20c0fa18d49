"""Anomalies by the thresholds of a file, or by its own decisions. Answers of libraries are in model_files/recipes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightbox.base.errors import ModelFailed
from lightbox.heads import ranking_problem
from lightbox.heads.anomalies import Anomaly, anomalies
from lightbox.heads.maps import placed_maps
from lightbox.images.preparation import Placed, Placement
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from support.parameters import each

PIXELS = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", (None, 3, 2, 2))}, {})
VALUES = np.array([[[[0, 2], [4, 10]]]], np.float32)
OPTIONS = ModelOptions(map="anomaly", thresholds=(9, 4, 20))


def found(options: ModelOptions, **outputs: Array) -> tuple[Anomaly, Array]:
    """Return the anomaly of one image, and its map."""
    specs = {name: TensorSpec(name, array.dtype.name, (None, *array.shape[1:])) for name, array in outputs.items()}
    signature = replace(PIXELS, outputs=specs)
    assert ranking_problem(options, signature) is None
    call = ModelCall(signature, {"x": np.zeros((1, 3, 2, 2))}, placed=(Placed((2, 2), Placement((2, 2))),))
    maps = placed_maps(outputs, options, call)
    assert maps is not None
    ((values,),) = maps.values()
    (anomaly,) = anomalies(outputs, options, call)
    return anomaly, values


def test_thresholds_are_in_the_middle() -> None:
    anomaly, values = found(OPTIONS, y=VALUES)
    assert np.allclose(values, np.array([[0.3, 0.4], [0.5, 0.8]]))
    assert (round(anomaly.score, 6), anomaly.is_one) == (0.55, True)
    assert (anomaly.part.share, anomaly.part.lengths.tolist()) == (0.5, [1, 1, 1, 1])
    anomaly, _ = found(ModelOptions(map="anomaly"), y=VALUES / 100)
    assert (round(anomaly.score, 6), anomaly.is_one, anomaly.part.share) == (0.1, False, 0)
    assert anomaly.part.lengths.tolist() == [4]


def test_the_models_own_decisions_count() -> None:
    own = {"pred_score": np.array([0.2], np.float32), "pred_label": np.array([True])}
    mask = np.array([[[[True, False], [False, False]]]])
    anomaly, values = found(ModelOptions(map="anomaly"), anomaly_map=VALUES, pred_mask=mask, **own)
    assert (round(anomaly.score, 6), anomaly.is_one, anomaly.part.share) == (0.2, True, 0.25)
    assert np.array_equal(values, VALUES[0, 0]), "as the model gives them"


@each(
    ("outputs", "labels", "problem"),
    [
        ({"y": (None, 2, 2, 2)}, None, "expected one output of"),
        ({"y": (None, 2, 2), "z": (None, 2, 2)}, None, "expected one output of"),
        ({"pred_score": (None,)}, None, "expected one output of"),
        ({"y": (None, 2, 2)}, ("a",), "expected a label for each of the 2 classes"),
    ],
)
def test_outputs_that_are_no_anomalies(
    outputs: dict[str, tuple[int | None, ...]], labels: tuple[str, ...] | None, problem: str
) -> None:
    specs = {name: TensorSpec(name, "float32", shape) for name, shape in outputs.items()}
    options = ModelOptions(map="anomaly", labels=labels)
    assert problem in str(ranking_problem(options, replace(PIXELS, outputs=specs)))


def test_scores_of_other_images() -> None:
    with pytest.raises(ModelFailed, match="expected outputs for 1 images, got 2"):
        found(ModelOptions(map="anomaly"), anomaly_map=VALUES, pred_score=np.zeros(2, np.float32))
