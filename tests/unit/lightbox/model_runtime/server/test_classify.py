"""Results of Classify and Regress from outputs that fit, and the real server's errors for others."""

from __future__ import annotations

import numpy as np
import pytest

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.server.classify import to_classifications, to_regressions
from lightbox.model_runtime.wire.status import StatusError
from support.parameters import each

SCORES = np.array([[0.25, 0.75]], np.float32)
LABELS = np.array([[b"cat", b"dog"]], object)


@each(
    ("outputs", "expected"),
    [
        ({"classes": LABELS, "scores": SCORES}, [("cat", 0.25), ("dog", 0.75)]),
        ({"scores": SCORES}, [("", 0.25), ("", 0.75)]),
        ({"classes": LABELS}, [("cat", 0), ("dog", 0)]),
    ],
)
def test_labels_or_scores_may_be_missing(outputs: dict[str, Array], expected: list[tuple[str, float]]) -> None:
    (item,) = to_classifications(outputs, 1).classifications
    assert [(one.label, one.score) for one in item.classes] == expected


@each(
    ("outputs", "words"),
    [
        ({"scores": SCORES[0]}, r"Expected Tensor shape: \[batch_size num_classes\] but got \[2\]"),
        ({"scores": SCORES.astype(np.float64)}, "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
        ({"classes": SCORES}, "Expected classes Tensor of DT_STRING. Got: DT_FLOAT"),
        ({"scores": np.repeat(SCORES, 2, 0)}, "Expected scores output batch size of 1. Got: 2"),
        ({"classes": LABELS[:, :1], "scores": SCORES}, r"should match in dim_size\(1\). Got 1 vs. 2"),
    ],
)
def test_outputs_that_are_no_classes(outputs: dict[str, Array], words: str) -> None:
    with pytest.raises(StatusError, match=words):
        to_classifications(outputs, 1)


def test_regressions() -> None:
    for array in (SCORES[0], SCORES.T):
        assert [one.value for one in to_regressions({"outputs": array}, 2).regressions] == [0.25, 0.75]
    for array, words in (
        (SCORES, r"\[batch_size\] or \[batch_size, 1\] but got \[1,2\]"),
        (SCORES[0, :1], "Input batch size did not match output batch size: 2 vs. 1"),
        (SCORES[0].astype(int), "Expected output Tensor of DT_FLOAT.  Got: DT_INT64"),
    ):
        with pytest.raises(StatusError, match=words):
            to_regressions({"outputs": array}, 2)
