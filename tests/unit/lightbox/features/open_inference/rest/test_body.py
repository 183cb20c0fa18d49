"""The routes below /v2 over a fake model server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.features.open_inference.dataplane import MAX_NAMED
from support.fake_transport import FakeTransport
from support.fakes import png
from support.infer_requests import DTYPES, LENGTH, images, infer
from support.parameters import each

RED = png(np.full((4, 4, 3), (200, 0, 0)))
MEANS = [200, 0, 0, 0, 0, 100]


@pytest.mark.parametrize(
    "path", ["models/none", "models/mean/versions/7", "models/none/ready", "models/mean/versions/x"]
)
def test_unknown_models_and_versions(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/v2/{path}")
    assert answer.status_code == 404
    assert answer.get_json()["code"] == "model_not_found"


def test_the_index_names_every_model(client: FlaskClient) -> None:
    index = client.post("/v2/repository/index", json={"ready": True}).get_json()
    assert {"name": "mean", "version": "1", "state": "READY", "reason": ""} in index
    assert len(index) == len(DTYPES) + 2


@pytest.mark.parametrize("size", [len(RED), str(len(RED)), None])
def test_one_image_may_be_bare(client: FlaskClient, size: Any) -> None:
    answer = infer(client, "mean", images([1], **({} if size is None else {"binary_data_size": size})), RED)
    assert answer.get_json()["outputs"][0]["data"] == MEANS[:3]


def test_a_body_without_json_is_one_input(client: FlaskClient) -> None:
    pixels = np.zeros((2, 4, 4, 3), np.uint8).tobytes()
    for body, shape in ((RED, [1, 3]), (pixels, [2, 3])):
        answer = client.post("/v2/models/mean/infer", data=body, headers={LENGTH: "0"})
        document = json.loads(answer.data[: int(answer.headers[LENGTH])])
        assert document["outputs"][0]["shape"] == shape
    wrong = client.post("/v2/models/mean/infer", data=pixels[1:], headers={LENGTH: "0"})
    assert wrong.status_code == 400


def test_the_wanted_outputs_are_the_model_servers_filter(client: FlaskClient, transport: FakeTransport) -> None:
    data = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [[1, 2]]}
    answer = infer(client, "float32", {"inputs": [data], "outputs": [{"name": "z"}]})
    assert [output["name"] for output in answer.get_json()["outputs"]] == ["z"]
    assert transport.calls[-1].outputs == ("z",)
    assert infer(client, "float32", {"inputs": [data], "outputs": [{"name": "q"}]}).status_code == 400


def entry(**changes: Any) -> dict[str, Any]:
    found = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2], **changes}
    return {"inputs": [{key: value for key, value in found.items() if value is not None}]}


@each(
    ("document", "blobs", "words"),
    [
        (entry(shape=[1, 3]), [], "holds 3 values, got 2"),
        (entry(data=[[1], [2]]), [], "shape [1, 2]"),
        (entry(datatype="FP31"), [], "FP31"),
        (entry(datatype="INT32"), [], "expected dtype float32, got int32"),
        (entry(shape=[2]), [], "expected shape [-1,2], got one of rank 1"),
        (entry(shape=[-1, 2]), [], "expected a shape"),
        (entry(name="q"), [], "got q"),
        (entry(data=["a", "b"]), [], "got str"),
        (entry(data=None), [], "got neither"),
        (entry(parameters={"binary_data_size": 8}), [bytes(8)], "got both"),
        (entry(data=None, parameters={"binary_data_size": 7}), [bytes(7)], "is 8 bytes, got 7"),
        (entry(data=None, parameters={"binary_data_size": 9}), [bytes(8)], "8 bytes left"),
        (entry(data=None, parameters={"binary_data_size": 8}), [bytes(9)], "1 bytes are left over"),
        (entry(data=None, parameters={"binary_data_size": -1}), [bytes(9)], "expected a number of bytes"),
        ({"inputs": []}, [], "at least one"),
        ({"inputs": entry()["inputs"] * 2}, [], "more than once"),
        ([], [], "a JSON object"),
        ({"inputs": [{"shape": [1]}]}, [], "each with a name"),
    ],
)
def test_what_cannot_be_used_is_said(client: FlaskClient, document: Any, blobs: list[bytes], words: str) -> None:
    answer = infer(client, "float32", document, *blobs)
    assert answer.status_code == 400
    assert words in answer.get_json()["error"]
    assert answer.get_json()["request_id"] == answer.headers["X-Amzn-RequestId"]


@pytest.mark.parametrize(
    ("document", "blob", "words"),
    [
        (images([1], binary_data_size=4), b"none", "Expected an image"),
        (images([2], binary_data_size="4"), b"none", "holds 2 elements, but binary_data_size names 1"),
        (images([2], binary_data_size="2,3"), b"none", "4 bytes left"),
        (images([2], binary_data_size="2,x"), b"none", "'2,x'"),
        (images([2], binary_data_size=4), b"none", "each after its length"),
        (images([0], binary_data_size=0), b"", "N encoded images"),
    ],
)
def test_images_that_cannot_be_used(client: FlaskClient, document: Any, blob: bytes, words: str) -> None:
    answer = infer(client, "mean", document, blob)
    assert answer.status_code == 400
    assert words in answer.get_json()["error"]


def test_null_is_as_good_as_nothing(client: FlaskClient) -> None:
    (tensor,) = entry()["inputs"]
    document = {"id": None, "parameters": None, "outputs": None, "inputs": [{**tensor, "parameters": None}]}
    assert infer(client, "float32", document).status_code == 200


@pytest.mark.parametrize("value", [300, -1, 1.5, 2**70, 1e300])
def test_no_number_wraps_around(client: FlaskClient, value: float) -> None:
    document = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "UINT8", "data": [1, value]}]}
    assert infer(client, "uint8", document).status_code == 400


@pytest.mark.parametrize("what", ["inputs", "outputs", "parameters"])
def test_more_than_a_model_can_have_is_refused_by_its_number(client: FlaskClient, what: str) -> None:
    names = [f"n{index}" for index in range(MAX_NAMED + 1)]
    document: dict[str, Any] = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
    document[what] = dict.fromkeys(names, 1) if what == "parameters" else [{"name": name} for name in names]
    answer = infer(client, "float32", document)
    assert answer.status_code == 413
    assert answer.get_json()["error"] == f"{what}: expected at most 1024, got 1025"


def test_each_name_that_comes_twice_is_named(client: FlaskClient) -> None:
    document = {"inputs": [{"name": name} for name in "abcab"]}
    answer = infer(client, "float32", document)
    assert (answer.status_code, answer.get_json()["error"]) == (400, "inputs: a, b appears more than once")
