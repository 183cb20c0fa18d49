"""DeepStack's routes, with the forms that its clients post."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, png, signature
from support.parameters import each
from unit.lightbox.codecs.test_drawn import fractions

SIDE = 320
PHOTO = png(np.full((300, 600, 3), 90, np.uint8))
"""In a letterbox of 320 by 320 it has 160 rows, from row 80 on."""
DOG = {"label": "dog", "confidence": 0.9, "x_min": 150, "y_min": 38, "x_max": 300, "y_max": 225}
CAT = {"label": "cat", "confidence": 0.3, "x_min": 0, "y_min": 0, "x_max": 75, "y_max": 150}


def boxes(inputs: Mapping[str, Array]) -> dict[str, Array]:
    rows = np.array([[[80, 100, 160, 200, 0.9, 1, 1], [0, 80, 40, 160, 0.3, 0, 1]]], np.float32)
    return {"y": rows, "maps": np.ones((1, 1, 8, 8), np.float32)}


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    fake, pixels = FakeTransport(), {"x": ("uint8", (None, SIDE, SIDE, 3))}
    given = {"y": ("float32", (None, 2, 7)), "maps": ("float32", (None, 1, 8, 8))}
    fake.serve(signature("boxes", pixels, given), boxes)
    outputs = {"detection_boxes": (None, None, 4), "detection_classes": (None, None), "detection_scores": (None, None)}
    fake.serve(signature("tf", pixels, {name: ("float32", shape) for name, shape in outputs.items()}), fractions)
    fake.serve(mean_model(), channel_means)
    segments = ModelOptions(detections="ultralytics-segment", labels=("cat", "dog"), fit="letterbox")
    models = {"boxes": segments, "tf": ModelOptions(top_k=5), "mean": ModelOptions(labels=("a", "b", "c"))}
    return fake_app(fake, models, {"LIGHTBOX_DEEPSTACK": "true"}).test_client()


def post(client: FlaskClient, path: str = "detection", **form: Any) -> TestResponse:
    return client.post(f"/v1/vision/{path}", data=form, content_type="multipart/form-data")


def image() -> tuple[BytesIO, str]:
    return BytesIO(PHOTO), "image"


@each(
    ("path", "form", "expected"),
    [
        ("detection", {}, [DOG]),
        ("detection", {"api_key": "", "min_confidence": "0.2"}, [DOG, CAT]),
        ("detection", {"min_confidence": "0.95"}, []),
        ("detection", {"min_confidence": ""}, [DOG]),
        ("custom/boxes", {}, [DOG]),
        ("custom/tf", {}, [{**DOG, "label": "1", "y_min": 75}]),
    ],
)
def test_objects_of_a_form(client: FlaskClient, path: str, form: dict[str, str], expected: list[Any]) -> None:
    answer = post(client, path, image=image(), **form)
    body = answer.get_json()
    assert (answer.status_code, body["success"], body["duration"] >= 0) == (200, True, True)
    rounded = [{**one, "confidence": round(one["confidence"], 3)} for one in body["predictions"]]
    assert rounded == expected


@each(
    ("path", "form", "status", "sentence"),
    [
        ("detection", {"min_confidence": "0.5"}, 400, "expected a part 'image'"),
        ("detection", {"image": (BytesIO(b"no picture"), "image")}, 400, "the text 'no picture'"),
        ("detection", {"image": (BytesIO(PHOTO), "a"), "min_confidence": "40"}, 400, "from 0 to 1, got '40'"),
        ("detection", {"image": (BytesIO(PHOTO), "a"), "min_confidence": "nan"}, 400, "from 0 to 1, got 'nan'"),
        ("custom/other", {"image": (BytesIO(PHOTO), "a")}, 404, "other"),
        ("custom/mean", {"image": (BytesIO(PHOTO), "a")}, 406, "name a detector"),
    ],
)
def test_errors_have_deepstacks_keys(
    client: FlaskClient, path: str, form: dict[str, Any], status: int, sentence: str
) -> None:
    answer = post(client, path, **form)
    body = answer.get_json()
    assert (answer.status_code, body["success"], body["code"]) == (status, False, status)
    assert sentence in body["error"]


def test_a_body_that_is_no_form(client: FlaskClient) -> None:
    answer = client.post("/v1/vision/detection", data=PHOTO, content_type="image/png")
    assert (answer.status_code, answer.get_json()["success"]) == (415, False)


def test_without_the_setting_there_is_no_route() -> None:
    fake = FakeTransport()
    fake.serve(mean_model(), channel_means)
    answer = post(fake_app(fake, {"mean": ModelOptions()}).test_client(), image=image())
    assert (answer.status_code, answer.get_json()["code"]) == (404, "route_not_found")
