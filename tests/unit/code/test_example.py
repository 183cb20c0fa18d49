"""The example in code/: a classifier's best classes, a detector's boxes in pixels of the image as it came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, png, signature

CODE = Path(__file__).parents[3] / "code"
IMAGE = png(np.zeros((40, 100, 3)))


@pytest.fixture
def transport() -> FakeTransport:
    fake = FakeTransport()
    image = {"image": ("uint8", (None, 8, 8, 3))}
    scores = np.array([[0.1, 0.6, 0.3]], "f4")
    fake.serve(signature("classes", image, {"scores": ("float32", (None, 3))}), lambda inputs: {"scores": scores})
    outputs = dict.fromkeys(("detection_boxes", "detection_scores", "detection_classes"), ("float32", None))
    found = {
        "detection_boxes": np.array([[[0.25, 0.1, 0.75, 0.5], [0, 0, 1, 1.1], [0, 0, 0.1, 0.1]]], "f4"),
        "detection_scores": np.array([[0.9, 0.4, 0.1]], "f4"),
        "detection_classes": np.array([[1, 18, 200]], "f4"),
    }
    fake.serve(signature("objects", image, outputs), lambda inputs: found)
    return fake


def client(transport: FakeTransport, model: str, **options: object) -> FlaskClient:
    return fake_app(transport, {model: ModelOptions.model_validate(options)}, code=CODE).test_client()


def test_the_best_classes_by_name(transport: FakeTransport) -> None:
    answer = client(transport, "classes", labels=("cat", "dog"), top_k=2).post("/invocations", data=IMAGE)
    first, second = answer.get_json()["predictions"][0]
    assert (first["label"], first["class"], second["label"]) == ("dog", 1, "2")
    assert first["score"] == pytest.approx(0.6)


def test_without_labels_a_class_is_its_number(transport: FakeTransport) -> None:
    answer = client(transport, "classes").post("/invocations", data=IMAGE)
    assert [entry["label"] for entry in answer.get_json()["predictions"][0]] == ["1", "2", "0"]


def test_boxes_in_pixels_of_the_image_as_it_came(transport: FakeTransport) -> None:
    (found,) = client(transport, "objects").post("/invocations", data=IMAGE).get_json()["predictions"]
    assert [(entry["label"], entry["box"]) for entry in found] == [("person", [10.0, 10.0, 50.0, 30.0])]


def test_the_caller_may_choose_the_threshold(transport: FakeTransport) -> None:
    app = client(transport, "objects")
    lower = {"X-Amzn-SageMaker-Custom-Attributes": "threshold=0.05"}
    (found,) = app.post("/invocations", data=IMAGE, headers=lower).get_json()["predictions"]
    assert [entry["label"] for entry in found] == ["person", "dog", "200"]
    assert found[1]["box"] == [0.0, 0.0, 100.0, 40.0]
    wrong = {"X-Amzn-SageMaker-Custom-Attributes": "threshold=low"}
    answer = app.post("/invocations", data=IMAGE, headers=wrong)
    assert (answer.status_code, answer.get_json()["code"]) == (400, "bad_request")
    assert "got 'low'" in answer.get_json()["error"]


def test_labels_files_have_a_line_for_each_class() -> None:
    coco = (CODE / "labels" / "coco.txt").read_text().splitlines()
    assert len(coco) == 91
    assert sum(map(bool, coco[1:])) == 80
    assert (coco[1], coco[18], coco[90]) == ("person", "dog", "toothbrush")
    assert (CODE / "labels" / "digits.txt").read_text().split() == [str(digit) for digit in range(10)]
