"""Models that OpenVINO runs in part, with TensorFlow for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.engines.test_signatures import copied, found_faster, has_tensorflow, server

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ('{"instances": [NaN, Infinity, 1.0]}', '{"predictions":[NaN,Infinity,2.5]}'),
        ('{"instances": [3e38, 3e38, 3e38]}', '{"predictions":[1.5e+38,1.5e+38,1.5e+38]}'),
        ('{"instances": [[1.0], [2.0]]}', '{"predictions":[[2.5],[3.0]]}'),
    ],
    ids=["not_finite", "sum_not_finite", "another_shape"],
)
def test_what_openvino_may_not_answer_goes_to_tensorflow(tmp_path: Path, body: str, answer: str) -> None:
    """TensorFlow's bytes and errors are returned. OpenVINO answers the next request again."""
    model = found_faster(copied(tmp_path))
    with server(tmp_path / "a", model) as running, server(tmp_path / "t", model, engine="tensorflow") as reference:
        running.wait_ready()
        reference.wait_ready()
        assert reference.rest("POST", "/v1/models/m:predict", body) == (200, answer)
        assert running.rest("POST", "/v1/models/m:predict", body) == (200, answer)
        assert has_tensorflow(running)
        assert running.predict("m", instances=[1.0]) == (200, {"predictions": [2.5]})
