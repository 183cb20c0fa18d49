"""Examples in JSON."""

from __future__ import annotations

from support.model_server import ModelServer


def test_a_feature_name_that_is_no_text(recorded_server: ModelServer) -> None:
    body = b'{"examples":[{"\xff":1.0}]}'
    assert recorded_server.rest("POST", "/v1/models/classify_regress:classify", body)[0] == 400
