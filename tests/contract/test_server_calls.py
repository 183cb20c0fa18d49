"""Calls: their deadline, their number, and the names of their methods."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import grpc
import pytest

from lightbox.model_runtime.wire.messages import model_pb2, predict_pb2
from lightbox.model_runtime.wire.stubs import prediction_service_pb2_grpc as service
from support.held import Door, export_endless, export_held_image
from support.model_server import MODELS, ModelServer
from support.patience import PATIENCE

pytestmark = pytest.mark.extended


def predict(channel: grpc.Channel, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
    return service.PredictionServiceStub(channel).Predict(request, timeout=PATIENCE)


def test_more_calls_than_threads_are_refused(tmp_path: Path, door: Door) -> None:
    export_held_image(tmp_path / "held", door)
    flags = ["--model_name=held", f"--model_base_path={tmp_path}/held", "--grpc_max_threads=2"]
    request = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(name="held"))
    request.inputs["image"].dtype = 4
    for size in (1, 8, 8, 3):
        request.inputs["image"].tensor_shape.dim.add(size=size)
    request.inputs["image"].tensor_content = b"\1" * 192
    with ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        with grpc.insecure_channel(server.grpc_address) as channel:
            stub = service.PredictionServiceStub(channel)
            calls = [stub.Predict.future(request, timeout=PATIENCE) for _ in range(30)]
            door.wait_for(2)
            server.until(lambda: sum(call.done() for call in calls) == 20)  # all but 2 that run and 8 in the queue
            assert door.came == 2
            door.open()
            codes = Counter(call.code().name for call in calls)
    assert codes == {"RESOURCE_EXHAUSTED": 20, "OK": 10}


def test_a_deadline_ends_the_call_in_the_server(tmp_path: Path, door: Door) -> None:
    export_endless(tmp_path / "endless", door)
    flags = ["--model_name=endless", f"--model_base_path={tmp_path}/endless", "--grpc_max_threads=1"]
    request = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(name="endless"))
    request.inputs["x"].dtype = 9
    request.inputs["x"].int64_val.append(1)
    request.inputs["x"].tensor_shape.dim.add(size=1)
    with ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        with grpc.insecure_channel(server.grpc_address) as channel:
            seconds = 0.2
            while not door.came:  # the deadline may pass before the call reaches the model
                with pytest.raises(grpc.RpcError) as caught:
                    service.PredictionServiceStub(channel).Predict(request, timeout=seconds)
                assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                seconds *= 2
            request.inputs["x"].int64_val[:] = [0]
            # The only thread answers: the previous call has ended.
            assert list(predict(channel, request).outputs["y"].int64_val) == [0]
        assert server.predict("endless", instances=[0]) == (200, {"predictions": [0]})


def test_method_names_are_checked_on_request(tmp_path: Path) -> None:
    flags = ["--model_name=half", f"--model_base_path={MODELS}/half_plus_two"]
    with ModelServer(tmp_path, *flags, "--enable_signature_method_name_check") as server:
        server.wait_ready()
        status, text = server.rest("POST", "/v1/models/half:classify", '{"examples": [{"x": 1.0}]}')
        wanted = "tensorflow/serving/classify. Was: tensorflow/serving/predict"
        assert status == 400
        assert f"Expected classification signature method_name to be {wanted}" in text
        assert server.predict("half", instances=[1.0])[0] == 200
