"""``tfs-crop``: a prediction for a part of the image in the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.core.attributes import parse_custom_attributes
from lightbox.model.options import ModelOptions, ResolvedOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, png, signature
from support.parameters import each

PIXELS = np.random.default_rng(7).integers(0, 256, (6, 8, 3), np.uint8)
IMAGE = png(PIXELS)
PART = "tfs-crop=2,1,4,3"


def lengths(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"size": np.array([len(text) for text in inputs["text"]], np.int64)}


@pytest.fixture
def client() -> FlaskClient:
    transport = FakeTransport()
    transport.serve(mean_model(side=None), channel_means)
    files = signature("files", {"text": ("string", (None,))}, {"size": ("int64", (None,))})
    transport.serve(files, lengths)
    transport.serve(mean_model("named"), channel_means)
    of_recipe = ResolvedOptions(labels=("red", "green", "blue"), of_recipe=frozenset({"labels"}))
    return fake_app(transport, {"mean": ModelOptions(), "files": ModelOptions(), "named": of_recipe}).test_client()


def ask(client: FlaskClient, attributes: str, body: bytes = IMAGE, content_type: str = "image/png") -> tuple[int, Any]:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": attributes}
    answer = client.post("/invocations", data=body, content_type=content_type, headers=headers)
    return answer.status_code, answer.get_json().get("error") or answer.get_json()["predictions"]


@pytest.mark.parametrize("attributes", [PART, "trace=1, tfs-crop=2, 1, 4, 3,tfs-model-name=mean", "a;tfs-crop=2,1,4,3"])
def test_the_model_sees_the_part_alone(client: FlaskClient, attributes: str) -> None:
    status, rows = ask(client, attributes)
    assert status == 200
    np.testing.assert_allclose(rows, [PIXELS[1:4, 2:6].mean(axis=(0, 1))], rtol=1e-6)


def test_a_model_of_files_gets_the_part_as_png(client: FlaskClient) -> None:
    whole, part = (ask(client, f"tfs-model-name=files{crop}")[1] for crop in ("", f",{PART}"))
    assert whole == [len(IMAGE)]
    assert 0 < int(part[0]) < len(IMAGE)


def test_a_part_has_the_classes_of_a_recipe_as_the_whole_does(client: FlaskClient) -> None:
    for crop in ("", f",{PART}"):
        _, (classes,) = ask(client, f"tfs-model-name=named{crop}")
        assert {one["label"] for one in classes} == {"red", "green", "blue"}


@each(
    ("crop", "sentence"),
    [
        ("0,0,9,1", "which is 8x6; got 0,0,9,1"),
        ("8,0,1,1", "which is 8x6; got 8,0,1,1"),
        ("0,6,1,1", "which is 8x6; got 0,6,1,1"),
        ("0,0,0,1", "which is 8x6; got 0,0,0,1"),
        ("1,2,3", "in whole pixels, such as 0,0,640,480; got '1,2,3'"),
        ("1,2,3,4,5", "got '1,2,3,4,5'"),
        ("-1,0,2,2", "got '-1,0,2,2'"),
        ("0,0,1.5,2", "got '0,0,1.5,2'"),
        ("all", "got 'all'"),
    ],
)
def test_what_is_no_part_of_the_image(client: FlaskClient, crop: str, sentence: str) -> None:
    status, error = ask(client, f"tfs-crop={crop}")
    assert status == 400
    assert error.startswith("tfs-crop: expected x,y,width,height")
    assert sentence in error


@pytest.mark.parametrize(
    ("body", "content_type"), [(b'{"instances": [[1]]}', "application/json"), (b"1,2", "text/csv"), (b"", "")]
)
def test_a_body_that_is_no_image_has_no_part(client: FlaskClient, body: bytes, content_type: str) -> None:
    status, error = ask(client, PART, body, content_type)
    assert status == 400
    assert error.startswith("tfs-crop: expected a body that is one image, got ")
    assert (content_type or "without a Content-Type") in error


def test_the_pair_ends_where_the_numbers_do() -> None:
    found = parse_custom_attributes("tfs-crop=1,2,3,4,tfs-model-name=m,5")
    assert found == {"tfs-crop": "1,2,3,4", "tfs-model-name": "m"}
