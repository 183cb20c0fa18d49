"""Apps with /openapi.json over a fake model server, and their documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from flask import Flask

from lightbox.features.multi_model import MultiModel
from lightbox.features.multi_model.routes import multi_model_blueprint
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, signature
from support.openapi import validator

Document = dict[str, Any]
ON = {"LIGHTBOX_OPENAPI": "true"}
DETECTOR = signature(
    "detector",
    {"image": ("uint8", (None, 4, 4, 3))},
    {
        "detection_boxes": ("float32", (None, 2, 4)),
        "detection_classes": ("float32", (None, 2)),
        "detection_scores": ("float32", (None, 2)),
        "num_detections": ("float32", (None,)),
    },
)
TWO = signature(
    "two", {"a": ("float32", (None, 2)), "b": ("int32", (None,))}, {"s": ("float64", (None,)), "t": ("string", ())}
)


def detect(inputs: Mapping[str, Array]) -> dict[str, Array]:
    count = len(inputs["image"])
    return {
        "detection_boxes": np.tile(np.array([0, 0, 0.5, 1], "f4"), (count, 2, 1)),
        "detection_classes": np.ones((count, 2), "f4"),
        "detection_scores": np.full((count, 2), 0.5, "f4"),
        "num_detections": np.ones(count, "f4"),
    }


def two(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"s": inputs["a"].sum(1, np.float64), "t": np.array(b"text", object)}


def app_of(models: Mapping[str, ModelOptions], environ: Mapping[str, str] = ON, code: Path | None = None) -> Flask:
    transport = FakeTransport()
    served: list[tuple[SignatureSpec, Any]] = [(mean_model(), channel_means), (DETECTOR, detect), (TWO, two)]
    for spec, answer in served:
        transport.serve(spec, answer)
    nothing: Any = None  # the routes are listed, and none is called
    with patch.object(MultiModel, "routes", lambda *_: [multi_model_blueprint(nothing, nothing, nothing)]):
        return fake_app(transport, models, environ, code)


def document_of(app: Flask) -> Document:
    answer = app.test_client().get("/openapi.json")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert answer.mimetype == "application/json"
    found: Document = answer.get_json()
    return found


def check(document: Document, schema: Mapping[str, Any], value: Any) -> None:
    validator(schema, document["components"]).validate(value)
