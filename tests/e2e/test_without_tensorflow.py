"""The whole of Lightbox without TensorFlow and tensorflow-serving-api. An installed package reports OpenVINO's use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from support.model_files import dense, write_dense_as
from support.models import copy_golden
from support.other_packages import BOTH, other_packages
from support.patience import PATIENCE
from support.stack import Stack, running

pytestmark = pytest.mark.extended

X = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
HANDLER = f"""
    import json
    from importlib.util import find_spec

    import openvino
    import requests
    from tensorflow.core.framework import types_pb2
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


    assert find_spec("tensorflow") is None and not hasattr(predict_pb2, "__file__"), "they are installed"


    def handler(data, context):
        rows = json.loads(data.read())["instances"]
        request = predict_pb2.PredictRequest()
        request.model_spec.name = context.model_name
        tensor = request.inputs["x"]
        tensor.dtype = types_pb2.DT_FLOAT
        tensor.float_val.extend(number for row in rows for number in row)
        for size in (len(rows), len(rows[0])):
            tensor.tensor_shape.dim.add(size=size)
        stub = prediction_service_pb2_grpc.PredictionServiceStub(context.channel)
        over_grpc = stub.Predict(request, {PATIENCE}).outputs["y"]
        over_rest = requests.post(context.rest_uri, json={{"instances": rows}}, timeout={PATIENCE}).json()
        answer = {{"grpc": list(over_grpc.float_val), "rest": over_rest["predictions"]}}
        return json.dumps(answer), "application/json"
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports") / "reports"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, reports: Path) -> Iterator[Stack]:
    models = tmp_path_factory.mktemp("models")
    for name in ("plain", "handled"):
        write_dense_as(models / name / "1" / "model.onnx")
    copy_golden("half_plus_two", models / "saved")
    code = models / "handled" / "code"
    code.mkdir()
    (code / "inference.py").write_text(dedent(HANDLER))
    # A cache of its own: others have compared the same files with TensorFlow.
    environ = {**other_packages(reports, *BOTH), "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    environ["LIGHTBOX_ENGINE"] = ""  # what is installed
    with running(models, tmp_path_factory.mktemp("run"), **environ) as stack:
        yield stack


def answer_of(stack: Stack, attributes: str) -> Any:
    headers = {"Content_Type": "application/json", "X_Amzn_SageMaker_Custom_Attributes": attributes}
    answer = stack.invoke(json.dumps({"instances": X}).encode(), **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("wire", ["local", "grpc", "rest"])
def test_every_wire_answers(bare: Stack, wire: str) -> None:
    answer = answer_of(bare, f"tfs-model-name=plain,tfs-transport={wire}")
    np.testing.assert_allclose(answer["predictions"], dense(X), rtol=1e-5)


def test_a_saved_model_is_answered_by_what_is_installed(bare: Stack) -> None:
    """No engine is configured. The newest version adds three to a half."""
    body = json.dumps({"instances": [1.0, 2.0]}).encode()
    headers = {"Content_Type": "application/json", "X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=saved"}
    assert bare.invoke(body, **headers).json() == {"predictions": [3.5, 4.0]}
    assert "not compared: TensorFlow is not installed" in bare.log


def test_a_handler_of_aws_asks_over_both_wires(bare: Stack) -> None:
    answer = answer_of(bare, "tfs-model-name=handled")
    np.testing.assert_allclose(answer["rest"], dense(X), rtol=1e-5)
    np.testing.assert_allclose(np.reshape(answer["grpc"], (2, 3)), dense(X), rtol=1e-5)


def test_nothing_reports_the_use_of_openvino(bare: Stack, reports: Path) -> None:
    """All processes have loaded OpenVINO by now, or the handler that imports it. Without Lightbox it does report."""
    answer_of(bare, "tfs-model-name=handled")
    assert not reports.exists(), reports.read_text()
    environ = dict(other_packages(reports))
    subprocess.run([sys.executable, "-c", "import openvino"], env=environ, check=True, timeout=PATIENCE)
    assert reports.exists()
