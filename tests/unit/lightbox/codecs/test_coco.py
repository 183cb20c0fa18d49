"""``Accept: application/coco+json`` through the app, and the ids of images."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from lightbox.codecs.coco import image_id, results
from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_model, png, signature
from support.parameters import each

COCO = "application/coco+json"
PHOTO = png(np.zeros((100, 200, 3), np.uint8))
EXPECTED = {"category_id": 1, "bbox": [20.0, 10.0, 80.0, 40.0], "score": 0.5}


def served(options: ModelOptions) -> Any:
    fake = FakeTransport()
    row = np.array([[[10, 10, 50, 50, 0.5, 1]]], np.float32)
    pixels = {"x": ("uint8", (None, 100, 100, 3))}
    boxes = signature("boxes", pixels, {"y": ("float32", (None, 1, 6))})
    fake.serve(boxes, lambda inputs: {"y": row.repeat(len(inputs["x"]), axis=0)})
    fake.serve(mean_model(), lambda inputs: {"mean": np.zeros((len(inputs["image"]), 3), np.float32)})
    return fake_app(fake, {"boxes": options, "mean": ModelOptions(top_k=1)}).test_client()


def test_objects_of_one_image_and_of_named_ones() -> None:
    client = served(ModelOptions(detections="ultralytics", labels=("cat", "dog")))
    one = client.post("/invocations", data=PHOTO, headers={"Content-Type": "image/png", "Accept": COCO})
    assert one.content_type == COCO
    assert one.get_json() == [{"image_id": 0, **EXPECTED}]
    form = {"a": (BytesIO(PHOTO), "000000000139.png"), "b": (BytesIO(PHOTO), "street.png")}
    named = client.post("/invocations", data=form, headers={"Accept": COCO}).get_json()
    assert [result["image_id"] for result in named] == [139, "street.png"]


def test_classes_have_no_boxes() -> None:
    headers = {"Content-Type": "image/png", "Accept": COCO, "X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=mean"}
    response = served(ModelOptions(detections="ultralytics", labels=("a", "b"))).post(
        "/invocations", data=PHOTO, headers=headers
    )
    assert response.status_code == 406
    assert "this model gives classes" in response.get_json()["error"]


@each(
    ("path", "expected"),
    [("val2017/000000000139.jpg", 139), ("a/b.jpg", "a/b.jpg"), ("7", 7), ("٣.jpg", "٣.jpg")],
)
def test_the_id_of_an_image(path: str, expected: int | str) -> None:
    assert image_id(path) == expected


def test_masks_and_keypoints() -> None:
    item = {"class": 3, "score": 0.5, "box": [1, 2, 4, 6]}
    mask = {"size": [10, 10], "counts": [12, 3, 85]}
    whole = {**item, "mask": mask, "keypoints": [[1, 2, 0.75], [3, 4, 0.25]]}
    expected = {"image_id": "a", "category_id": 8, "bbox": [1, 2, 3, 4], "score": 0.5}
    points = [1, 2, 0.75, 3, 4, 0.25]
    assert [*results(whole, "a", 8)] == [{**expected, "segmentation": mask, "keypoints": points}]
    assert [*results({**item, "keypoints": [[1, 2]]}, "a", 8)] == [{**expected, "keypoints": [1, 2, 1]}]
    assert [*results({**item, "mask": []}, "a", 8)] == []
