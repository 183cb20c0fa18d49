"""Responses and bodies match their schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.codecs.json_schemas import ranked_row
from lightbox.codecs.top_k import ranked_rows
from lightbox.model.options import ModelOptions
from lightbox.model.spec import ModelCall, SignatureSpec, TensorSpec
from support.described_apps import ON, app_of, check, document_of
from support.fakes import png
from support.openapi import validator
from support.parameters import each

pytestmark = pytest.mark.extended
IMAGE = png(np.full((4, 4, 3), (10, 20, 30)))


IMAGES = {"data": IMAGE, "content_type": "image/png"}
ROWS = {"json": {"instances": np.full((1, 4, 4, 3), 7).tolist()}}
COLUMNS = {"json": {"inputs": {"image": np.full((2, 4, 4, 3), 7).tolist()}}}


@each("sent", [IMAGES, ROWS, COLUMNS])
@each("options", [ModelOptions(), ModelOptions(labels=("r", "g", "b")), ModelOptions(top_k=2)])
@pytest.mark.parametrize("model", ["mean", "detector"])
def test_responses_are_as_declared(model: str, options: ModelOptions, sent: dict[str, Any]) -> None:
    app = app_of({model: options})
    document = document_of(app)
    schemas = document["components"]["schemas"]
    if "json" in sent:
        check(document, schemas[f"{model}.request"], sent["json"])
    answer = app.test_client().post("/invocations", **sent)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    check(document, schemas[f"{model}.response"], answer.get_json())
    declared = set(document["paths"]["/invocations"]["post"]["responses"]["200"]["headers"])
    assert {"X-Amzn-RequestId", "Server-Timing", "X-Lightbox-Model"} <= declared & set(answer.headers.keys())


def test_objects_are_as_declared() -> None:
    app = app_of({"detector": ModelOptions(detections="tf"), "mean": ModelOptions(detections="tf")})
    schemas = document_of(app)["components"]["schemas"]
    answer = app.test_client().post("/invocations", **IMAGES).get_json()
    assert [[*item] for item in answer["predictions"][0]] == [["class", "score", "box"]]
    check(document_of(app), schemas["detector.response"], answer)
    plain = {"predictions": [[1.0, 2.0, 3.0]]}
    check(document_of(app), schemas["mean.response"], plain)  # as from a signature without detections


@pytest.mark.parametrize(
    ("options", "more", "part"),
    [
        ({"detections": "ultralytics-segment"}, [1.0], "mask"),
        ({"detections": "ultralytics-segment", "masks": "polygon"}, [1.0], "mask"),
        ({"detections": "ultralytics-pose", "keypoints": (1, 3)}, [3.0, 4, 0.5], "keypoints"),
        ({"detections": "ultralytics-obb"}, [0.5], "corners"),
    ],
)
def test_the_parts_of_objects_are_as_declared(options: dict[str, Any], more: list[float], part: str) -> None:
    rows = [[8, 8, 4, 4, 0.9, *more], *[[99, 9, 1, 1, 0, *more]] * 20]
    outputs = {"y": np.array([rows], np.float32).transpose(0, 2, 1)}
    if part == "mask":
        outputs["maps"] = np.ones((1, 1, 4, 4), np.float32)
    given = {name: TensorSpec(name, "float32", array.shape) for name, array in outputs.items()}
    taken = {"x": TensorSpec("x", "float32", (1, 3, 16, 16))}
    signature, chosen = SignatureSpec("net", 1, "s", taken, given), ModelOptions(**options)
    schema = ranked_row(signature, given, chosen)
    assert schema is not None
    texts = ranked_rows(outputs, chosen, ModelCall(signature, {"x": np.zeros((1, 3, 16, 16), np.float32)}))
    ((found,),) = map(json.loads, texts or ())
    assert part in found
    validator(schema, {}).validate([found])
    assert not validator(schema, {}).is_valid([{**found, part: [[1]]}])


@pytest.mark.parametrize("options", [ModelOptions(), ModelOptions(detections="tf"), ModelOptions(top_k=2)])
def test_what_a_preprocess_reads_is_answered_with_outputs(tmp_path: Path, options: ModelOptions) -> None:
    code = "import numpy as np\ndef preprocess(request):\n    return {'image': np.zeros((1, 4, 4, 3), np.uint8)}\n"
    (tmp_path / "inference.py").write_text(code)
    app = app_of({"detector": options}, ON, tmp_path)
    answer = app.test_client().post("/invocations", data=b"any", content_type="text/any").get_json()
    assert "detection_boxes" in answer["predictions"][0]
    check(document_of(app), document_of(app)["components"]["schemas"]["detector.response"], answer)


def test_a_schema_refuses_what_is_not_the_models() -> None:
    document = document_of(app_of({"mean": ModelOptions()}))
    schemas = document["components"]["schemas"]
    request = validator(schemas["mean.request"], document["components"])
    response = validator(schemas["mean.response"], document["components"])
    assert not request.is_valid({"instances": np.full((1, 5, 4, 3), 7).tolist()})
    assert not request.is_valid({"instances": np.full((1, 4, 4, 3), 256).tolist()})
    assert not request.is_valid({"inputs": {"picture": []}})
    assert not response.is_valid({"predictions": ["red"]})
