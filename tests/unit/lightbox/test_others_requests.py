"""Requests of other projects' clients and test suites, recorded: each gets what that client reads.

docs/tested-by-others.md names the suites.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.base.errors import ModelFailed
from lightbox.model.options import ModelOptions
from support.fakes import fake_app, mean_server, png, signature
from support.parameters import each

RED = png(np.full((4, 4, 3), (200, 0, 0)))
TENSOR = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.5]}
BINARY = [{"name": "y", "parameters": {"binary_data": True}}]
SAGEMAKER = "application/vnd.sagemaker-triton.binary+json"
OF_NUMBERS = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=numbers"}
HEAD = (
    b'{"model_name":"numbers","model_version":"1",'
    b'"outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
)
BLOB = np.array([1, 2.5], np.float32).tobytes()
ANSWER = {
    "model_name": "numbers",
    "model_version": "1",
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.5]}],
}


TEXT = base64.b64encode(RED).decode()
FILE = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [TEXT]}
BASE64 = {"inputs": [FILE | {"parameters": {"content_type": "base64"}}]}
NO_BASE64 = {"inputs": [FILE | {"data": ["~"], "parameters": {"content_type": "base64"}}]}
MEAN = {
    "model_name": "mean",
    "model_version": "1",
    "outputs": [{"name": "mean", "datatype": "FP32", "shape": [1, 3], "data": [200.0, 0.0, 0.0]}],
}
OF_STRINGS = {
    "parameters": {"content_type": "base64"},
    "inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": [base64.b64encode(b"text").decode()]}],
}
STRINGS = {
    "model_name": "strings",
    "model_version": "1",
    "outputs": [{"name": "y", "datatype": "BYTES", "shape": [1], "data": ["text"]}],
}
OF_TWO, OF_INT8 = ({"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={name}"} for name in ("two", "int8"))
PICTURE = {"images": {"b64": TEXT}, "sizes": [4, 4]}
TWO = [FILE | {"name": "images"}, {"name": "sizes", "shape": [1, 2], "datatype": "INT64", "data": [4, 4]}]


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    fake = mean_server()
    rows = signature("numbers", {"x": ("float32", (None, 2))}, {"y": ("float32", (None, 2))})
    fake.serve(rows, lambda inputs: {"y": inputs["x"]})
    fake.serve(
        signature("fixed", {"x": ("float32", (1, 3, 4, 4))}, {"y": ("float32", (1, 9))}),
        lambda inputs: {"y": np.zeros((1, 9), np.float32)},
    )
    fake.serve(
        signature("strings", {"x": ("string", (None,))}, {"y": ("string", (None,))}), lambda inputs: {"y": inputs["x"]}
    )
    sizes = {"images": ("float32", (None, 3, 4, 4)), "sizes": ("int64", (None, 2))}
    fake.serve(signature("two", sizes, {"y": ("float32", (None,))}), lambda inputs: {})
    fake.serve(signature("int8", {"x": ("int8", (1, 4, 4, 3))}, {"y": ("float32", (1, 3))}), lambda inputs: {})
    fake.serve(signature("open", {"x": ("float32", (None, 3, None, None))}, {"y": ("float32", (None,))}), refuse)
    models = ("mean", "numbers", "fixed", "strings", "two", "int8", "open")
    return fake_app(fake, {name: ModelOptions() for name in models}).test_client()


def refuse(inputs: Mapping[str, Any]) -> dict[str, Any]:
    error = ModelFailed("the shape of input data conflicts with the reshape pattern")
    error.detail = "for the log"
    raise error


@each(
    ("path", "headers", "body", "status", "content_type", "got"),
    [
        # tritonclient's simple_http_infer_client and simple_http_aio_infer_client: query_params={"test_1": 1, ...}
        (
            "/v2/models/numbers/infer?test_1=1&test_2=2",
            {},
            {"inputs": [TENSOR]},
            200,
            "application/json",
            ANSWER,
        ),
        # Triton's qa/L0_sagemaker, test_inference_client_generated_response_binary
        (
            "/invocations",
            OF_NUMBERS | {"Content-Type": "application/json"},
            {"inputs": [TENSOR], "outputs": BINARY},
            200,
            f"{SAGEMAKER};json-header-size={len(HEAD)}",
            HEAD + BLOB,
        ),
        (
            "/invocations",
            OF_NUMBERS | {"Content-Type": "application/octet-stream"},
            {"inputs": [TENSOR]},
            200,
            "application/json",
            ANSWER,
        ),
        # the SageMaker SDK's PandasDeserializer and NumpyDeserializer compare the type with their Accept header
        ("/invocations", {"Accept": "text/csv"}, RED, 200, "text/csv", b"200.0,0.0,0.0\n"),
        ("/invocations", {"Accept": "application/x-npy"}, RED, 200, "application/x-npy", None),
        # the SDK's DataSerializer, and objects of S3
        ("/invocations", {"Content-Type": "file-path/raw-bytes"}, RED, 200, "application/json", None),
        ("/invocations", {"Content-Type": "binary/octet-stream"}, RED, 200, "application/json", None),
        ("/invocations", {"Content-Type": "file-path/raw-bytes"}, b"%PDF-1.7", 400, "application/json", "got PDF"),
        ("/invocations", {"Content-Type": "file-path/raw-bytes"}, b"text", 415, "application/json", "Content-Type"),
        # MLServer's clients: base64 in JSON, by a parameter of the input or of the request
        ("/v2/models/mean/infer", {}, BASE64, 200, "application/json", MEAN),
        ("/v2/models/strings/infer", {}, OF_STRINGS, 200, "application/json", STRINGS),
        ("/v2/models/mean/infer", {}, NO_BASE64, 400, "application/json", "content_type is base64"),
        # a detector that also takes the sizes of images: a picture is no tensor of it
        ("/invocations", OF_TWO, {"instances": [PICTURE]}, 400, "application/json", "images are decoded for models of"),
        ("/invocations", OF_TWO, RED, 415, "application/json", "images are decoded for models of one input"),
        ("/v2/models/two/infer", {}, {"inputs": TWO}, 400, "application/json", "images are decoded for models of one"),
        # quantized pixels
        ("/invocations", OF_INT8, RED, 415, "application/json", "but the input x is int8; make it in preprocess"),
        # the SDK's NumpySerializer with a file in place of pixels
        *(
            (
                "/invocations",
                {"Content-Type": "application/x-npy"},
                npy(array),
                400,
                "application/json",
                "send them as application/x-image",
            )
            for array in (np.frombuffer(RED, np.uint8), np.array(RED), np.array([RED]))
        ),
    ],
)
def test_recorded_requests(
    client: FlaskClient,
    path: str,
    headers: Mapping[str, str],
    body: Any,
    status: int,
    content_type: str,
    got: Any,
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.post(path, data=data, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, content_type)
    if isinstance(got, bytes):
        assert answer.data == got
    elif isinstance(got, str):
        assert got in answer.get_json()["error"]
    elif got is not None:
        assert answer.get_json() == got


@each(
    ("model", "most", "form", "dims"),
    [
        ("mean", 1024, "FORMAT_NHWC", [4, 4, 3]),
        ("numbers", 1024, "FORMAT_NONE", [2]),
        ("fixed", 1, "FORMAT_NCHW", [3, 4, 4]),
    ],
)
def test_tritons_image_client_finds_the_batch_and_the_layout(
    client: FlaskClient, model: str, most: int, form: str, dims: list[int]
) -> None:
    config = client.get(f"/v2/models/{model}/config").get_json()
    (taken,) = config["input"]
    assert (config["max_batch_size"], taken["format"], taken["dims"]) == (most, form, dims)
    (described,) = client.get(f"/v2/models/{model}").get_json()["inputs"]
    assert described["shape"][1:] == dims, "the metadata have the batch"


def test_a_model_of_one_size_that_does_not_say_so(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    answer = client.post(
        "/invocations", data=RED, headers={"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=open"}
    )
    assert (answer.status_code, answer.get_json()["code"]) == (502, "model_failed")
    assert answer.get_json()["error"].endswith("of one size only, set the option image_size")
    assert caplog.text.rstrip().endswith("set the option image_size (for the log)")


def test_boto3_shows_why_sagemakers_own_routes_are_missing(client: FlaskClient) -> None:
    # AsyncPredictor.predict_async: SageMaker itself answers InvokeEndpointAsync, not a container
    answer = client.post("/endpoints/e/async-invocations", headers={"X-Amzn-SageMaker-InputLocation": "s3://b/k"})
    assert (answer.status_code, answer.get_json()["code"]) == (404, "route_not_found")
    assert answer.get_json()["message"] == answer.get_json()["error"]


@each("parameters", [{"config": '"parameters": {{'}, {"file:1/model.onnx": "AAAA"}])
def test_a_load_does_not_ignore_the_configuration_that_it_carries(
    client: FlaskClient, parameters: dict[str, str]
) -> None:
    answer = client.post("/v2/repository/models/mean/load", json={"parameters": parameters})
    assert (answer.status_code, answer.get_json()["code"]) == (400, "bad_request")
    assert f"expected none, got {next(iter(parameters))}" in answer.get_json()["error"]
    assert client.post("/v2/repository/models/mean/load", json={"parameters": {}}).status_code == 405, (
        "models are fixed"
    )
