"""The protocol's bodies match their schemas."""

from __future__ import annotations

import pytest

from lightbox.model.options import ModelOptions
from support.described_apps import app_of, check, document_of

pytestmark = pytest.mark.extended


def test_tensors_of_the_open_inference_protocol() -> None:
    app = app_of({"two": ModelOptions()})
    document = document_of(app)
    schemas = document["components"]["schemas"]
    sent = {
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [[1.5, 2]]},
            {"name": "b", "datatype": "INT32", "shape": [1], "data": [1]},
        ]
    }
    check(document, schemas["two.infer_request"], sent)
    answer = app.test_client().post("/v2/models/two/infer", json=sent)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    check(document, schemas["two.infer_response"], answer.get_json())
    metadata = app.test_client().get("/v2/models/two").get_json()
    check(document, schemas["ModelMetadata"], metadata)
    by_column = app.test_client().post("/invocations", json={"inputs": {"a": [[1, 2]], "b": [1]}}).get_json()
    check(document, schemas["two.response"], by_column)
