"""Text of callers fills neither the log nor the labels of metrics, and comes back in no error."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import requests

from lightbox.model_runtime.wire.messages import predict_pb2
from support.fakes import png
from support.models import copy_golden
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack, free_port, running

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
MOST_LOG, MOST_ECHO = 64_000, 200
TALKS = """
import logging, os

def postprocess(outputs, request):
    for _ in range(2000):
        print("x" * 1000)
        logging.getLogger("mine").warning("y" * 1000)
        os.write(2, b"z" * 1000 + b"\\n")
    raise ValueError("w" * 1_000_000)
"""

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("text")
    models = folder / "models"
    for name, copy in (("image_mean", "image_mean"), ("image_mean", "talks"), ("half_plus_two", "half_plus_two")):
        copy_golden(name, models / copy)
    (models / "talks" / "code").mkdir()
    (models / "talks" / "code" / "inference.py").write_text(TALKS)
    environ = {"LIGHTBOX_TFS_API": "true", GRPC_PORT: str(free_port()), "LIGHTBOX_HANDLER_LOG_KB": "16"}
    environ |= {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "image_mean"}
    with running(models, folder / "run", **environ) as stack:
        yield stack


def page(stack: Stack) -> str:
    return requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text


def damaged_fax() -> bytes:
    """Return a TIFF about which libtiff has 32,000 complaints."""
    data = b"\xff" + b"\x03" * 40_000  # a code word that does not exist
    tags = [(256, 8), (257, 65_000), (258, 1), (259, 4), (262, 0), (273, 0), (277, 1), (278, 65_000), (279, len(data))]
    start = 8 + 2 + 12 * len(tags) + 4
    entries = (struct.pack("<HHII", tag, 4, 1, start if tag == 273 else value) for tag, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(entries) + bytes(4) + data


def test_a_damaged_picture_writes_no_log_of_its_own(talking: Stack) -> None:
    rows = [{"b64": base64.b64encode(damaged_fax()).decode()}] * 10
    body = gzip.compress(json.dumps({"instances": rows}).encode())
    before = len(talking.log)
    answer = talking.invoke(body, Content_Type="application/json", Content_Encoding="gzip")
    assert answer.status_code in (200, 400)
    assert talking.invoke(png(np.zeros((8, 8, 3), np.uint8))).status_code == 200
    talking.lines_with("status=200")
    assert len(talking.log) - before < MOST_LOG


def test_a_handler_that_talks_is_cut_off_and_what_is_missing_is_counted(talking: Stack) -> None:
    before = len(talking.log)
    answer = talking.invoke(
        png(np.zeros((8, 8, 3), np.uint8)), X_Amzn_SageMaker_Custom_Attributes="tfs-model-name=talks"
    )
    assert answer.status_code == 500
    for whose in ("gunicorn", "handlers"):
        talking.wait_until(
            lambda whose=whose: (  # type: ignore[misc]
                talking.invoke(b"").status_code > 0
                and f"log lines of {whose} were dropped: more than 16384 bytes per second" in talking.log[before:]
            )
        )
    assert len(talking.log) - before < 1_000_000
    (dropped,) = [line for line in page(talking).splitlines() if line.startswith("lightbox_log_lines_dropped_total ")]
    assert float(dropped.split()[1]) > 4000


def predict(stack: Stack, **spec: str) -> grpc.RpcError:
    with grpc.insecure_channel(f"127.0.0.1:{stack.environ[GRPC_PORT]}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        request = predict_pb2.PredictRequest(model_spec=spec)
        with pytest.raises(grpc.RpcError) as raised:
            call(request.SerializeToString(), timeout=PATIENCE)
    return raised.value


def test_an_invented_name_is_no_label(talking: Stack) -> None:
    for number in range(3):
        name = f"invented{number}"
        for path in ("", "/metadata", "/versions/1", ":predict", "/versions/7:predict", ":classify"):
            method = "POST" if ":" in path else "GET"
            url, body = f"{talking.url}/v1/models/{name}{path}", b'{"instances":[1]}' if ":" in path else None
            assert requests.request(method, url, data=body, timeout=PATIENCE).status_code in (400, 404)
        for route in (
            f"/v2/models/{name}/infer",
            f"/models/{name}/invoke",
            f"/v2/models/half_plus_two/versions/{name}",
        ):
            assert requests.post(talking.url + route, b"{}", timeout=PATIENCE).status_code >= 400
        talking.invoke(b"{}", X_Amzn_SageMaker_Custom_Attributes=f"tfs-model-name={name}")
        predict(talking, name=name)
    requests.post(f"{talking.url}/v1/models/half_plus_two:predict", b'{"instances":[1]}', timeout=PATIENCE)
    text = page(talking)
    assert "invented" not in text
    assert 'model="half_plus_two",route="/v1/models/<model>:predict"' in text
    assert not [line for line in talking.log.splitlines() if "[request]" in line and " model=invented" in line]


LONG = ["k" * 200_000, "k " * 5000, "k'" * 5000, 'k"' * 5000]


@each("text", LONG)
@each(
    "shape", [lambda t: {"instances": [{t: 1}]}, lambda t: {"instances": [t]}, lambda t: {"instances": [[t], t]},
              lambda t: {"inputs": {t: 1}}, lambda t: {"signature_name": t, "instances": [1]}, lambda t: {t: 1},
              lambda t: {"instances": [{"b64": t}]}, lambda t: {"inputs": {"x": {t: [1]}}}]
)  # fmt: skip
def test_an_error_of_the_model_server_repeats_little(talking: Stack, shape: object, text: str) -> None:
    assert callable(shape)
    for verb in ("predict", "classify", "regress"):
        url = f"{talking.url}/v1/models/half_plus_two:{verb}"
        answer = requests.post(url, json.dumps(shape(text)), timeout=PATIENCE)
        assert answer.status_code >= 400
        assert answer.json()["error"].count("k") <= MOST_ECHO + 20  # the words around it have some
    url = f"{talking.url}/v1/models/{text[:3000].replace('/', '')}:predict"
    assert requests.post(url, b"{}", timeout=PATIENCE).text.count("k") <= MOST_ECHO + 20


@each("text", ["k" * 4000, "k " * 2000])
def test_an_error_over_grpc_repeats_little(talking: Stack, text: str) -> None:
    for spec in ({"name": text}, {"name": "half_plus_two", "signature_name": text}):
        error: object = predict(talking, **spec)
        assert isinstance(error, grpc.Call)
        assert error.details().count("k") <= MOST_ECHO + 20
