"""Features that /v2 shares with /invocations: SageMaker's headers and form, image checks, user code."""

from __future__ import annotations

import json
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_server, png, signature
from support.infer_requests import LENGTH, images, infer, prefixed
from support.parameters import each
from support.patience import PATIENCE

RED = png(np.full((4, 4, 3), (200, 0, 0)))
BLUE = png(np.full((9, 5, 3), (0, 0, 100)))
MEANS = [200, 0, 0, 0, 0, 100]


@pytest.fixture
def transport() -> FakeTransport:
    fake = mean_server()
    for dtype in ("float32", "string"):
        fake.serve(signature(dtype, {"x": (dtype, (None, 2))}, {"y": (dtype, (None, 2))}), lambda i: {"y": i["x"]})
    return fake


@pytest.fixture
def client(transport: FakeTransport) -> FlaskClient:
    return fake_app(transport, {name: ModelOptions() for name in ("mean", "float32", "string")}).test_client()


def entry() -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}


@pytest.mark.parametrize(
    ("attributes", "status"),
    [("tfs-model-version=7", 404), ("tfs-model-version=x", 400), ("tfs-method=classify", 400), ("tfs-method=x", 400)],
)
def test_sagemakers_attributes_keep_their_meaning(client: FlaskClient, attributes: str, status: int) -> None:
    header = {"X-Amzn-SageMaker-Custom-Attributes": attributes}
    answer = client.post("/v2/models/float32/infer", json=entry(), headers=header)
    assert answer.status_code == status


def test_a_version_in_the_path_wins_over_the_attributes(client: FlaskClient) -> None:
    header = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-version=7"}
    assert client.post("/v2/models/float32/versions/1/infer", json=entry(), headers=header).status_code == 200


def broken_png() -> bytes:
    return RED[:20]


def bomb() -> bytes:
    header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + RED[24:29]
    return RED[:12] + header + struct.pack(">I", zlib.crc32(header)) + RED[33:]


def test_what_begins_as_an_image_is_checked_for_a_model_of_strings_too(client: FlaskClient) -> None:
    def status(*elements: bytes) -> int:
        blob = prefixed(*elements)
        tensor = {"name": "x", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(blob)}}
        outputs = [{"name": "y", "parameters": {"binary_data": True}}]
        return int(infer(client, "string", {"inputs": [tensor], "outputs": outputs}, blob).status_code)

    assert status(b"text", RED) == 200
    assert status(b"text", broken_png()) == 400
    assert status(b"text", bomb()) == 413


def test_images_for_a_model_of_encoded_images(transport: FakeTransport) -> None:
    transport.serve(signature("bytes", {"b": ("string", (None,))}, {"y": ("string", (None,))}), lambda i: {"y": i["b"]})
    client = fake_app(transport, {"bytes": ModelOptions()}).test_client()

    def ask(*bodies: bytes) -> Any:
        sizes = ",".join(str(len(body)) for body in bodies)
        tensor = {"name": "b", "shape": [len(bodies)], "datatype": "BYTES", "parameters": {"binary_data_size": sizes}}
        asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
        return infer(client, "bytes", asked, b"".join(bodies))

    answer = ask(RED, BLUE)
    assert answer.data[int(answer.headers[LENGTH]) :] == prefixed(RED, BLUE)
    assert ask(RED, broken_png()).status_code == 400
    assert ask(bomb()).status_code == 413
    assert ask(b"text").status_code == 200  # the model may take text


FORM = "application/vnd.sagemaker-triton.binary+json"


@pytest.mark.parametrize("path", ["/invocations", "/endpoints/any/invocations"])
@pytest.mark.parametrize("binary", [True, False])
def test_sagemakers_form(client: FlaskClient, path: str, binary: bool) -> None:
    document = images([2], binary_data_size=len(prefixed(RED, BLUE))) | {"parameters": {"binary_data_output": binary}}
    text = json.dumps(document).encode()
    answer = client.post(
        path, data=text + prefixed(RED, BLUE), headers={"Content-Type": f"{FORM};json-header-size={len(text)}"}
    )
    assert answer.status_code == 200, answer.text
    if not binary:
        assert answer.content_type == "application/json"
        assert answer.get_json()["outputs"][0]["data"] == MEANS
        return
    form, _, size = answer.content_type.partition(";json-header-size=")
    assert form == FORM
    assert json.loads(answer.data[: int(size)])["outputs"][0]["shape"] == [2, 3]
    assert np.frombuffer(answer.data[int(size) :], "<f4").tolist() == MEANS


@pytest.mark.parametrize("more", ["", ",tfs-crop=a", ",tfs-outputs=none"])
def test_sagemakers_form_chooses_its_model_by_attributes(client: FlaskClient, more: str) -> None:
    """Attributes for image bodies, or for bodies of a codec, are ignored."""
    text = json.dumps(entry()).encode()
    headers = {
        "Content-Type": f"{FORM}; json-header-size={len(text)}",
        "X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name=float32{more}",
    }
    assert client.post("/invocations", data=text, headers=headers).get_json()["model_name"] == "float32"


@pytest.mark.parametrize("parameter", ["", ";json-header-size=x", ";json-header-size=99999"])
def test_sagemakers_form_without_a_length_that_can_be(client: FlaskClient, parameter: str) -> None:
    answer = client.post("/invocations", data=b"{}", headers={"Content-Type": FORM + parameter})
    assert answer.status_code == 400
    assert "json-header-size" in answer.get_json()["error"]


@each("path", ["/invocations", "/endpoints/any/invocations"])
@each("form", ["application/json", "Application/JSON; charset=utf-8", "application/octet-stream", None])
@each(("rows", "before"), [(1, ""), (2000, "\n" * 100)])
def test_json_as_sagemakers_triton_containers_take_it(
    client: FlaskClient, path: str, form: str | None, rows: int, before: str
) -> None:
    document = {"id": "7", "inputs": [{"name": "x", "shape": [rows, 2], "datatype": "FP32", "data": [1, 2] * rows}]}
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=float32", "Accept": "text/csv"}
    answer = client.post(path, data=before + json.dumps(document), content_type=form, headers=headers)
    assert (answer.status_code, answer.content_type) == (200, "application/json"), answer.text
    output = {"name": "y", "datatype": "FP32", "shape": [rows, 2], "data": [1.0, 2.0] * rows}
    assert answer.get_json() == {"model_name": "float32", "model_version": "1", "outputs": [output], "id": "7"}


def test_json_that_is_no_request_of_the_protocol_is_tensorflow_servings(client: FlaskClient) -> None:
    """An incomplete tensor, or one next to another value, is a value in TensorFlow Serving's form."""
    (tensor,) = entry()["inputs"]
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=float32"}
    others: list[Any] = [{"inputs": [{key: tensor[key] for key in tensor if key != part}]} for part in tensor]
    others += [{"inputs": [tensor, 1]}, {"inputs": tensor}, {"instances": [tensor]}, {"inputs": []}]
    for document in others:
        answer = client.post("/invocations", json=document, headers=headers)
        assert (answer.status_code, "model_name" in answer.text) == (400, False), document
    named = {"inputs": [[1, 2]], "name": 1, "datatype": 2, "shape": 3, "data": 4}
    assert client.post("/invocations", json=named, headers=headers).get_json() == {"outputs": [[1.0, 2.0]]}


def test_json_of_the_protocol_goes_to_user_code_that_reads_bodies(transport: FakeTransport, tmp_path: Path) -> None:
    client = with_code(transport, tmp_path, "def handler(data, context):\n    return data.read(), 'application/json'\n")
    assert client.post("/invocations", json=entry()).get_json() == entry()


def with_code(transport: FakeTransport, folder: Path, code: str) -> FlaskClient:
    (folder / "inference.py").write_text(code)
    return fake_app(transport, {"mean": ModelOptions()}, code=folder).test_client()


PREPROCESS = """
import numpy as np
def preprocess(request):
    level = int(request.custom_attributes['level'])
    return {'image': np.full((len(request.images), 4, 4, 3), level, np.uint8)}
"""


def two_images(**parameters: Any) -> dict[str, Any]:
    return images([2], binary_data_size=f"{len(RED)},{len(BLUE)}") | {"parameters": parameters}


def test_the_users_preprocess_makes_the_input_of_images(transport: FakeTransport, tmp_path: Path) -> None:
    client = with_code(transport, tmp_path, PREPROCESS)
    answer = infer(client, "mean", two_images(level=7), RED, BLUE)
    assert answer.get_json()["outputs"][0]["data"] == [7] * 6
    pixels = {"name": "image", "shape": [1, 4, 4, 3], "datatype": "UINT8", "data": [1] * 48}
    assert infer(client, "mean", {"inputs": [pixels]}).get_json()["outputs"][0]["data"] == [1] * 3


@pytest.mark.parametrize(
    ("result", "outputs"),
    [
        ("{'double': outputs['mean'] * 2}", [("double", "FP32", [2, 3], [400, 0, 0, 0, 0, 200])]),
        ("{'names': np.array(['a', 'ü'])}", [("names", "BYTES", [2], ["a", "ü"])]),
        ("{'best': 'red'}", [("answer", "BYTES", [1], ['{"best":"red"}'])]),
        ("b'bytes'", [("answer", "BYTES", [1], ["bytes"])]),
    ],
)
def test_the_users_postprocess_makes_the_answer(
    transport: FakeTransport, tmp_path: Path, result: str, outputs: list[Any]
) -> None:
    code = f"import numpy as np\ndef postprocess(outputs, request):\n    return {result}\n"
    client = with_code(transport, tmp_path, code)
    before = client.get("/v2/models/mean").get_json()
    assert before["outputs"] == [], "nothing is claimed before it is known"
    found = infer(client, "mean", two_images(), RED, BLUE).get_json()["outputs"]
    assert [(o["name"], o["datatype"], o["shape"], o["data"]) for o in found] == outputs
    reply = client.get("/v2/models/mean").get_json()
    assert reply["outputs"] == [{"name": n, "datatype": d, "shape": [-1] * len(s)} for n, d, s, _ in outputs]
    own = [{"name": "mean", "datatype": "FP32", "shape": [-1, 3]}]
    assert reply["parameters"] == before["parameters"] == {"handler": ["postprocess"], "model_outputs": own}
    assert infer(client, "mean", two_images() | {"outputs": reply["outputs"]}, RED, BLUE).get_json()["outputs"] == found
    named = infer(client, "mean", two_images() | {"outputs": [{"name": "mean"}]}, RED, BLUE)
    assert named.get_json()["outputs"][0]["data"] == MEANS
    answer = infer(client, "mean", two_images() | {"outputs": [{"name": "none"}]}, RED, BLUE)
    assert answer.status_code == 400
    assert f"the user's code returns {outputs[0][0]}, the model mean; got none" in answer.get_json()["error"]


def test_user_code_that_writes_no_response_leaves_the_metadata(transport: FakeTransport, tmp_path: Path) -> None:
    reply = with_code(transport, tmp_path, PREPROCESS).get("/v2/models/mean").get_json()
    assert reply["outputs"] == [{"name": "mean", "datatype": "FP32", "shape": [-1, 3]}]
    assert "parameters" not in reply


def test_handlers_of_awss_api_answer_each_image(transport: FakeTransport, tmp_path: Path) -> None:
    client = with_code(
        transport,
        tmp_path,
        "def handler(data, context):\n"
        "    return f'{len(data.read())} {context.request_content_type} {context.custom_attributes}', 'text/plain'\n",
    )
    answer = infer(
        client, "mean", two_images(level=7, sure=True), RED, BLUE, X_Amzn_SageMaker_Custom_Attributes="a=1, free text"
    )
    (output,) = answer.get_json()["outputs"]
    reply = client.get("/v2/models/mean").get_json()
    assert reply["outputs"] == [{"name": "answer", "datatype": "BYTES", "shape": [-1]}]
    assert (output["name"], output["datatype"], output["shape"]) == ("answer", "BYTES", [2])
    assert reply["parameters"]["handler"] == ["handler"]
    attributes = "a=1, free text,level=7,sure=true"
    assert output["data"] == [f"{len(body)} application/x-image {attributes}" for body in (RED, BLUE)]
    pixels = {"name": "image", "shape": [1, 4, 4, 3], "datatype": "UINT8", "data": [1] * 48}
    assert infer(client, "mean", {"inputs": [pixels]}).get_json()["outputs"][0]["data"] == [1] * 3


def test_a_handler_is_asked_about_no_more_images_once_time_is_up(transport: FakeTransport, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    client = with_code(
        transport,
        tmp_path,
        "import time\n"
        "def handler(data, context):\n"
        f"    with open({str(calls)!r}, 'a') as file: file.write('x')\n"
        "    time.sleep(1)\n"
        "    return b'', 'text/plain'\n",
    )
    # The request spent nearly all of its time in a queue.
    received = f"{time.time() - PATIENCE + 0.5:.3f}"
    answer = infer(client, "mean", two_images(), RED, BLUE, X_Lightbox_Received=received)
    assert (answer.status_code, answer.get_json()["code"]) == (504, "deadline_exceeded")
    assert not calls.exists() or calls.read_text() == "x"


def test_a_parameter_does_not_choose_the_method_that_a_handler_gets(transport: FakeTransport, tmp_path: Path) -> None:
    client = with_code(transport, tmp_path, "def handler(data, context): return context.rest_uri, 'text/plain'")
    answer = infer(client, "mean", two_images(**{"tfs-method": "regress"}), RED, BLUE)
    assert answer.status_code == 200, answer.text
    assert all(text.endswith("/mean:predict") for text in answer.get_json()["outputs"][0]["data"])
