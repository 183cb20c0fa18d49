"""``tfs-outputs``: a caller selects outputs by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from lightbox.features.streams.frame_options import from_query
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import fake_app, png, signature
from support.parameters import each

OPTIONS = ModelOptions(outputs=("scores", "boxes"))


def three(inputs: Mapping[str, Array]) -> dict[str, Array]:
    rows = len(inputs["x"])
    return {name: np.full((rows, 2), number, "f4") for number, name in enumerate(("boxes", "classes", "scores"))}


def client_of(options: ModelOptions = OPTIONS, code: Path | None = None) -> FlaskClient:
    transport = FakeTransport()
    outputs = dict.fromkeys(("boxes", "classes", "scores"), ("float32", (None, 2)))
    transport.serve(signature("m", {"x": ("float32", (None,))}, outputs), three)
    return fake_app(transport, {"m": options}, code=code).test_client()


def ask(client: FlaskClient, attributes: str, accept: str = "") -> TestResponse:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": attributes, "Accept": accept}
    return client.post("/invocations", data=b'{"instances": [1]}', content_type="application/json", headers=headers)


@each(
    ("attributes", "expected"),
    [
        ("", {"boxes": [0, 0], "scores": [2, 2]}),
        ("tfs-outputs=classes", [1, 1]),
        ("tfs-outputs=scores classes", {"classes": [1, 1], "scores": [2, 2]}),
        ("tfs-outputs=scores,classes,tfs-transport=grpc", {"classes": [1, 1], "scores": [2, 2]}),
        ("tfs-outputs=boxes boxes", [0, 0]),
        ("tfs-outputs=", {"boxes": [0, 0], "scores": [2, 2]}),
    ],
)
def test_the_named_outputs_answer(attributes: str, expected: Any) -> None:
    assert ask(client_of(), attributes).get_json() == {"predictions": [expected]}


def test_a_type_for_one_output_takes_the_one() -> None:
    client = client_of()
    assert ask(client, "tfs-outputs=classes", "text/csv").data == b"1.0,1.0\n"
    assert ask(client, "tfs-outputs=classes scores", "text/csv").status_code == 406


def test_labels_are_left_out() -> None:
    client = client_of(ModelOptions(outputs=("scores",), labels=("cat", "dog")))
    assert "label" in ask(client, "").data.decode()
    assert ask(client, "tfs-outputs=scores").get_json() == {"predictions": [[2, 2]]}


def test_postprocess_gets_them(tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text("def postprocess(outputs, request):\n    return sorted(outputs)\n")
    assert ask(client_of(code=tmp_path), "tfs-outputs=scores classes").get_json() == ["classes", "scores"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ("tfs-outputs=score", "gives boxes, classes, scores; got score"),
        (
            "tfs-outputs=scores,tfs-method=classify",
            "tfs-outputs: this pair cannot be combined with tfs-method=classify",
        ),
    ],
)
def test_what_cannot_be_asked_for(attributes: str, why: str) -> None:
    answer = ask(client_of(), attributes)
    assert answer.status_code == 400
    assert why in answer.get_json()["error"]


def test_a_stream_chooses_them_for_its_frames() -> None:
    headers = from_query("tfs-outputs=scores+classes&tfs-transport=rest").headers()
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-outputs=scores classes,tfs-transport=rest"


def test_objects_are_searched_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    transport, now = FakeTransport(), [0.0]

    def late(inputs: Mapping[str, Array]) -> dict[str, Array]:
        now[0] += 1e6
        return {"output0": np.ones((len(inputs["x"]), 5, 9), "f4")}

    pixels, boxes = ("float32", (None, 8, 8, 3)), ("float32", (None, 5, 9))
    transport.serve(signature("m", {"x": pixels}, {"output0": boxes}), late)
    client = fake_app(transport, {"m": ModelOptions(detections="ultralytics", labels=("cat",))}).test_client()
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    answer = client.post("/invocations", data=png(np.zeros((8, 8, 3))), content_type="image/png")
    assert answer.status_code == 504
    assert "passed before the model's answer was read" in answer.get_data(as_text=True)
