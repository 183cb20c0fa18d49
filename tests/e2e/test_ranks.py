"""Request shapes: none ends the model server, and harmless shapes reach the model server.

The embedded server runs in place of the real binary: too low a rank ends the real binary's process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import requests

from lightbox.model_runtime.wire.predict_messages import predict_request_pieces, read_predict_response
from support.models import export_column, export_convolution, export_old
from support.patience import PATIENCE
from support.real_binary import real_binary
from support.stack import Stack, free_port, running

pytestmark = pytest.mark.extended

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
PROGRAM = "tensorflow_model_server"


@pytest.fixture(scope="module")
def frail_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("ranks")
    export_convolution(folder / "models" / "convolution")
    export_convolution(folder / "models" / "open", is_open=True)
    export_column(folder / "models" / "column")
    export_old(folder / "models" / "old")
    environ = {
        **real_binary(folder),
        "LIGHTBOX_TFS_API": "true",
        "LIGHTBOX_TRANSPORT": "grpc,rest",
        GRPC_PORT: str(free_port()),
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "convolution",
    }
    with running(folder / "models", folder / "run", **environ) as found:
        yield found


@pytest.fixture
def server(frail_stack: Stack) -> Iterator[None]:
    """Check that the test leaves the model server's process alive."""
    (before,) = frail_stack.processes(PROGRAM)
    yield
    (after,) = frail_stack.processes(PROGRAM)
    assert (after.pid, frail_stack.ping()) == (before.pid, 200), frail_stack.log[-3000:]


def post(stack: Stack, path: str, body: bytes | str, **headers: str) -> requests.Response:
    return stack.invoke(body.encode() if isinstance(body, str) else body, path, **headers)


def over_grpc(stack: Stack, model: str, shape: tuple[int, ...], change: bytes = b"") -> Any:
    """Return the outputs of Predict, or the error's status and text. ``change`` is appended to the message."""
    message = b"".join(predict_request_pieces(model, "", {"x": np.ones(shape, np.float32)})) + change
    with grpc.insecure_channel(f"127.0.0.1:{stack.environ[GRPC_PORT]}") as channel:
        grpc.channel_ready_future(channel).result(PATIENCE)
        try:
            reply = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(message, timeout=PATIENCE)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    return read_predict_response(reply)


def low(rank: int) -> str:
    return f"input x: expected shape [-1,6,6,3], got one of rank {rank}"


PREDICT = "/v1/models/convolution:predict"


@pytest.mark.usefixtures("server")
def test_an_input_without_a_declared_rank_is_refused_on_every_route(frail_stack: Stack) -> None:
    said = "input x: expected a rank of at least 4, got 1"
    named = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=open", "Content_Type": "application/json"}
    tensor = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0, 2.0, 3.0]}
    for path, body, headers in (
        ("/v1/models/open:predict", {"instances": [1.0, 2.0, 3.0]}, {}),
        ("/invocations", {"instances": [1.0, 2.0, 3.0]}, named),
        ("/v2/models/open/infer", {"inputs": [tensor]}, {}),
    ):
        answer = post(frail_stack, path, json.dumps(body), **headers)
        assert (answer.status_code, answer.json()["error"]) == (400, said)
    assert over_grpc(frail_stack, "open", (3,)) == ("INVALID_ARGUMENT", said)
    assert over_grpc(frail_stack, "open", (1, 6, 6, 3))["y"].shape == (1, 1, 1, 1)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/convolution/versions/1:predict",
        "/v1/models/convolution/versions/0:predict",
        "/v1/models/convolution/versions/01:predict",
        "/v1/models/convolution:PREDICT",
        "/V1/Models/convolution:predict",
        "/v1/models/c%6fnvolution:predict",
        "/v1/models/convolution:predict?verbose",
    ],
)
def test_a_low_rank_ends_nothing_however_the_path_is_written(frail_stack: Stack, path: str) -> None:
    assert 400 <= post(frail_stack, path, '{"instances":[1.0]}').status_code < 500


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("verb", ["classify", "regress"])
def test_examples_end_nothing(frail_stack: Stack, verb: str) -> None:
    answer = post(frail_stack, f"/v1/models/convolution:{verb}", '{"examples":[{"x":1.0}]}')
    assert answer.status_code == 400, answer.text


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("beginning", ['{"other":Inf,', '{"\\u0069":1,'])
def test_what_only_the_model_server_might_read_is_not_sent(frail_stack: Stack, beginning: str) -> None:
    body = beginning + " " * (3 << 20) + '"instances":[1.0]}'
    assert post(frail_stack, PREDICT, body).status_code == 400


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (6, 6, 3)])
def test_every_route_refuses_it_in_the_same_words(frail_stack: Stack, shape: tuple[int, ...]) -> None:
    data = np.ones(shape, np.float32)
    v2 = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(shape), "data": data.ravel().tolist()}]}
    answers = [
        post(frail_stack, PREDICT, json.dumps({"inputs": data.tolist()})),
        post(frail_stack, "/invocations", json.dumps({"inputs": data.tolist()}), Content_Type="application/json"),
        post(frail_stack, "/v2/models/convolution/infer", json.dumps(v2), Content_Type="application/json"),
    ]
    reply = {(answer.status_code, answer.json()["error"]) for answer in answers}
    assert reply == {(400, low(data.ndim))}
    assert over_grpc(frail_stack, "convolution", shape) == ("INVALID_ARGUMENT", low(data.ndim))


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("model", "answer"), [("column", [2.5, 3.0, 4.5]), ("old", [3.5, 4.0, 5.5])])
def test_a_rank_that_harms_nothing_is_answered_by_every_route(
    frail_stack: Stack, model: str, answer: list[float]
) -> None:
    """TensorFlow Serving's documented first request, to shape [-1,1] and to a shape that an old graph leaves open."""
    body, as_json = '{"instances": [1.0, 2.0, 5.0]}', {"Content_Type": "application/json"}
    v2 = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0, 2.0, 5.0]}]}
    attributes = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-model-name={model}"}
    assert post(frail_stack, f"/v1/models/{model}:predict", body).json() == {"predictions": answer}
    for wire in ("grpc", "rest"):
        on = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-model-name={model},tfs-transport={wire}"}
        assert post(frail_stack, "/invocations", body, **as_json, **on).json() == {"predictions": answer}
    infer = post(frail_stack, f"/v2/models/{model}/infer", json.dumps(v2), **as_json).json()
    assert (infer["outputs"][0]["shape"], infer["outputs"][0]["data"]) == ([3], answer)
    lines = post(frail_stack, "/invocations", "1.0\n2.0\n5.0", Content_Type="application/jsonlines", **attributes)
    assert lines.json() == {"predictions": answer}
    assert over_grpc(frail_stack, model, (3,))["y"].shape == (3,)


@pytest.mark.usefixtures("server")
def test_an_old_graphs_empty_shape_is_unknown(frail_stack: Stack) -> None:
    attributes = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=old"}
    one = post(frail_stack, "/invocations", "1.0,2.0,5.0", Content_Type="text/csv", **attributes)
    assert one.json() == {"predictions": [[3.5, 4.0, 5.5]]}
    three = post(frail_stack, "/invocations", "1.0\n2.0\n5.0", Content_Type="text/csv", **attributes)
    assert three.json() == {"predictions": [3.5, 4.0, 5.5]}
    assert requests.get(f"{frail_stack.url}/v2/models/old", timeout=PATIENCE).json()["inputs"][0]["shape"] == [-1]


@pytest.mark.usefixtures("server")
def test_an_old_signature_takes_examples_where_its_graph_takes_strings(frail_stack: Stack) -> None:
    body = json.dumps({"signature_name": "tensorflow/serving/regress", "examples": [{"x": 1.0}, {"x": 2.0}]})
    reply = post(frail_stack, "/v1/models/old:regress", body)
    attributes = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=old,tfs-method=regress"}
    here = post(frail_stack, "/invocations", body, Content_Type="application/json", **attributes)
    assert reply.json() == here.json() == {"results": [3.5, 4.0]}
    numbers = body.replace("tensorflow/serving/regress", "numbers")
    reply = post(frail_stack, "/v1/models/old:regress", numbers)
    here = post(frail_stack, "/invocations", numbers, Content_Type="application/json", **attributes)
    assert reply.status_code == here.status_code == 400
    assert reply.json()["error"].splitlines()[0] in here.json()["error"]


@pytest.mark.usefixtures("server")
def test_a_shape_that_the_model_cannot_take_gets_the_model_servers_sentence(frail_stack: Stack) -> None:
    body = json.dumps({"instances": np.ones((1, 6, 5, 2)).tolist()})
    reply = post(frail_stack, PREDICT, body)
    here = post(frail_stack, "/invocations", body, Content_Type="application/json")
    assert reply.status_code == here.status_code == 400
    assert here.json()["error"].startswith("input x: expected shape [-1,6,6,3], got [1,6,5,2]: ")
    sentence = reply.json()["error"].splitlines()[0]
    assert sentence and sentence in here.json()["error"]
