"""Requests of Ultralytics' client and of OpenVINO's ModelAPI, as ``make vision-clients RECORD=FILE`` writes them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np

from lightbox.model.options import ModelOptions
from lightbox.model_files.checks import notes_of
from support.fake_transport import FakeTransport
from support.fakes import fake_app, signature
from support.parameters import each
from support.stack import REPOSITORY

EXPORTS = REPOSITORY / "tests" / "exports" / "recipes"
OF_OPENVINO = EXPORTS / "openvino_classify"
RECORDED = json.loads(Path(__file__).with_name("vision_clients.json").read_text())
MODELS = sorted({one["path"].split("/")[3] for one in RECORDED})


@each("model", MODELS)
def test_others_clients_find_what_the_files_say(tmp_path: Path, model: str) -> None:
    own = [one for one in RECORDED if one["path"].split("/")[3] == model]
    (body,) = (one["json"] for one in own if "json" in one)
    (tensor,) = body["inputs"]
    (tmp_path / "1").symlink_to(EXPORTS / model if (EXPORTS / model).exists() else OF_OPENVINO)
    notes, fake = notes_of(tmp_path / "1"), FakeTransport()
    dtype = {"UINT8": "uint8", "FP32": "float32"}[tensor["datatype"]]
    outputs = {one["name"]: ("float32", (1, None)) for one in body.get("outputs", [{"name": "y"}])}
    fake.serve(
        signature(model, {tensor["name"]: (dtype, tuple(tensor["shape"]))}, outputs),
        lambda inputs: dict.fromkeys(outputs, np.ones((1, 7), np.float32)),
    )
    client = fake_app(fake, {model: ModelOptions()}, files=tmp_path).test_client()
    for one in own:
        if "json" in one:
            sent = json.dumps(body, separators=(",", ":")).encode()
            answer = client.post(
                one["path"], data=sent + bytes(tensor["parameters"]["binary_data_size"]), headers=one["headers"]
            )
            length = int(answer.headers["Inference-Header-Content-Length"])
            got = json.loads(answer.data[:length])["outputs"]
            assert [item["parameters"]["binary_data_size"] for item in got] == [28] * len(outputs)
            assert len(answer.data) == length + 28 * len(outputs)
        else:
            answer = client.get(one["path"])
        assert answer.status_code == 200
        if one["path"].endswith("/config"):
            found = ast.literal_eval(answer.get_json()["parameters"]["metadata"]["string_value"])
            assert found == notes
            assert found["task"] in model or found["task"] == "detect"
        elif one["path"].endswith(model):
            assert answer.get_json()["rt_info"]["model_info"]["labels"] == "cat dog big_cow other"


def test_notes_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"none")
    (tmp_path / "metadata.yaml").write_text("task: detect\n")
    assert notes_of(tmp_path) == {"task": "detect"}
