"""``Accept: image/jpeg`` and ``image/png`` through the app: which answers are drawn, into which pixels."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from flask.testing import FlaskClient
from PIL import Image
from werkzeug.test import TestResponse

from lightbox.images.drawing import drawn
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_model, png, signature
from support.parameters import each

SIDE = 320
PHOTO = png(np.full((300, 600, 3), 90, np.uint8))
"""In a letterbox of 320 by 320 it has 160 rows, from row 80 on."""
NUMBERS = f'{{"instances": {np.zeros((1, 4, 4, 3), int).tolist()}}}'.encode()
BOX = (80, 100, 160, 200)
"""Left, top, right, bottom in the input; 150, 37.5, 300, 225 in the photo."""


def one_box(inputs: Mapping[str, Array]) -> dict[str, Array]:
    rows = np.zeros((len(inputs["x"]), 1, 6), np.float32)
    rows[:, 0] = (*BOX, 0.9, 1)
    return {"y": rows}


def fractions(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {
        "detection_boxes": np.array([[[0.25, 0.25, 0.75, 0.5]]], np.float32),
        "detection_classes": np.ones((1, 1), np.float32),
        "detection_scores": np.full((1, 1), 0.9, np.float32),
    }


def two_classes(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"mean": np.tile(np.array([0.1, 0.7, 0.2], np.float32), (len(inputs["image"]), 1))}


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    fake, pixels = FakeTransport(), {"x": ("uint8", (None, SIDE, SIDE, 3))}
    fake.serve(signature("boxes", pixels, {"y": ("float32", (None, 1, 6))}), one_box)
    outputs = {"detection_boxes": (None, None, 4), "detection_classes": (None, None), "detection_scores": (None, None)}
    fake.serve(signature("tf", pixels, {name: ("float32", shape) for name, shape in outputs.items()}), fractions)
    fake.serve(mean_model(), two_classes)
    fake.serve(mean_model("plain"), two_classes)
    detector = ModelOptions(detections="ultralytics", labels=("cat", "dog"), fit="letterbox")
    labels = ModelOptions(labels=("cat", "dog", "fox"))
    models = {"boxes": detector, "tf": ModelOptions(top_k=5), "mean": labels, "plain": ModelOptions()}
    return fake_app(fake, models).test_client()


def post(client: FlaskClient, attributes: str, accept: str, data: Any = PHOTO, kind: str = "image/png") -> TestResponse:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={attributes}", "Accept": accept}
    return client.post("/invocations", data=data, content_type=kind, headers=headers)


def changed(response: TestResponse, before: int = 90) -> npt.NDArray[np.bool_]:
    """Return where a drawn PNG differs from its grey photo."""
    assert (response.status_code, response.content_type) == (200, "image/png"), response.data
    seen: npt.NDArray[np.bool_] = (np.asarray(Image.open(BytesIO(response.data))) != before).any(axis=2)
    return seen


def test_a_box_is_drawn_where_it_is_in_the_posted_photo(client: FlaskClient) -> None:
    seen = changed(post(client, "boxes", "image/png"))
    assert seen.shape == (300, 600)
    assert seen[37:225, 150].all() and seen[37:225, 300].all() and seen[38, 150:300].all() and seen[225, 150:300].all()
    assert not seen[60:200, 160:290].any() and not seen[:, 320:].any() and not seen[240:].any()


def test_a_jpeg_shows_the_same(client: FlaskClient) -> None:
    response = post(client, "boxes", "image/jpeg")
    assert response.content_type == "image/jpeg"
    by_png = np.asarray(Image.open(BytesIO(post(client, "boxes", "image/png").data)), np.int16)
    apart = np.asarray(Image.open(BytesIO(response.data)), np.int16) - by_png
    assert np.abs(apart).mean() < 2


def test_the_part_of_a_crop_is_drawn(client: FlaskClient) -> None:
    part = changed(post(client, "boxes,tfs-crop=200,0,320,300", "image/png"))
    assert part.shape == (300, 320)
    assert part[:, 80].any() and not part[:, 170:].any()


def test_fractions_of_a_detector_of_tensorflow_become_pixels(client: FlaskClient) -> None:
    seen = changed(post(client, "tf", "image/png"))
    assert seen[75:225, 150].all() and seen[75:225, 300].all() and not seen[:, 320:].any()


def test_classes_become_a_caption(client: FlaskClient) -> None:
    seen = changed(post(client, "mean", "image/png"))
    assert seen[5:40, 5:40].all() and not seen[100:].any()


@each(
    ("attributes", "accept", "data", "kind", "sentence"),
    [
        ("plain", "image/png", PHOTO, "image/png", "set labels, top_k or detections"),
        ("mean,tfs-outputs=mean", "image/jpeg", PHOTO, "image/png", "name no outputs"),
        (
            "mean",
            "image/jpeg",
            b'{"instances": [%s]}' % str([[[0] * 3] * 4] * 4).encode(),
            "application/json",
            "one im",
        ),
    ],
)
def test_what_cannot_be_drawn(
    client: FlaskClient, attributes: str, accept: str, data: bytes, kind: str, sentence: str
) -> None:
    response = post(client, attributes, accept, data, kind)
    assert response.status_code == 406
    assert sentence in response.get_json()["error"]


def test_several_images_are_not_one(client: FlaskClient) -> None:
    form = {name: (BytesIO(PHOTO), f"{name}.png") for name in "ab"}
    response = post(client, "mean", "image/png", form, "multipart/form-data")
    assert response.status_code == 406
    assert "post one image" in response.get_json()["error"]


@each("masks", ["rle", "polygon"])
@each("crop", ["", ",tfs-crop=200,0,320,300"])
def test_masks_are_drawn_where_the_response_has_them(masks: Any, crop: str) -> None:
    """They do not go through JSON."""
    rows = np.zeros((1, 2, 7), np.float32)
    rows[0] = [(*BOX, 0.9, 1, 1), (100, 120, 200, 220, 0.8, 0, 1)]
    columns = np.linspace(-1, 1, 80, dtype=np.float32)
    maps = 0.7 - np.hypot(columns, columns[:, None])[None, None]
    outputs = {"y": ("float32", (None, 2, 7)), "maps": ("float32", (None, 1, 80, 80))}
    fake = FakeTransport()
    fake.serve(
        signature("masks", {"x": ("uint8", (None, SIDE, SIDE, 3))}, outputs), lambda _: {"y": rows, "maps": maps}
    )
    options = ModelOptions(
        detections="ultralytics-segment", labels=("cat", "dog"), fit="letterbox", masks=masks, pad=114
    )
    client = fake_app(fake, {"masks": options}).test_client()
    (items,) = post(client, f"masks{crop}", "").get_json()["predictions"]
    assert len(items) == 2
    seen = np.asarray(Image.open(BytesIO(post(client, f"masks{crop}", "image/png").data)))
    left = 200 if crop else 0
    photo = Image.fromarray(np.full((300, 320 if crop else 600, 3), 90, np.uint8))
    assert np.array_equal(seen, np.asarray(drawn(photo, items, (left, 0))))
    assert changed(post(client, f"masks{crop}", "image/png")).sum() > 5000


def test_a_browser_that_also_takes_images_gets_json_of_tensors(client: FlaskClient) -> None:
    """Firefox names image/png among what it accepts."""
    accept = "text/html,application/xhtml+xml,image/avif,image/png,*/*;q=0.8"
    assert post(client, "plain", accept).content_type == "application/json"
    assert post(client, "mean", accept).content_type == "image/png"


def served_map(kind: Any, values: Any) -> FlaskClient:
    fake, array = FakeTransport(), np.asarray(values)
    outputs = {"y": (array.dtype.name, (None, *array.shape))}
    fake.serve(signature("map", {"x": ("uint8", (None, 8, 8, 3))}, outputs), lambda inputs: {"y": array[None]})
    labels = ("road", "tree") if kind == "classes" else None
    return fake_app(fake, {"map": ModelOptions(map=kind, labels=labels)}).test_client()


def test_a_map_of_classes_in_each_form() -> None:
    client = served_map("classes", np.array([[0] * 4 + [1] * 4] * 8, np.uint8))
    (areas,) = post(client, "map", "").get_json()["predictions"]
    assert [(area["label"], area["class"], area["share"]) for area in areas] == [("road", 0, 0.5), ("tree", 1, 0.5)]
    assert [area["mask"] for area in areas] == [
        {"size": [300, 600], "counts": [0, 90_000, 90_000]},
        {"size": [300, 600], "counts": [90_000, 90_000]},
    ]
    array = np.load(BytesIO(post(client, "map", "application/x-npy").data))
    assert (array.shape, array.dtype) == ((1, 300, 600), np.uint8)
    picture = Image.open(BytesIO(post(client, "map", "image/png").data))
    assert picture.mode == "P"
    assert np.array_equal(np.asarray(picture), array[0])
    overlay = np.asarray(Image.open(BytesIO(post(client, "map", "image/jpeg").data)), np.int16)
    left, right = overlay[250, 100], overlay[250, 500]
    assert overlay.shape == (300, 600, 3)
    assert np.abs(left - right).max() > 30 and np.abs(left - 90).max() > 20


def test_a_map_of_numbers_in_each_form() -> None:
    client = served_map("ultralytics-depth", np.array([list(range(8))] * 8, np.float32))
    (rows,) = post(client, "map", "").get_json()["predictions"]
    assert np.shape(rows) == (300, 600)
    assert (rows[0][0], rows[150][599]) == (0, 7)
    found = post(client, "map", "image/png")
    picture = np.asarray(Image.open(BytesIO(found.data)))
    assert (picture[0, 0], picture[299, 599], picture.dtype.name) == (0, 65535, "uint16")
    assert (found.headers["X-Lightbox-Least"], found.headers["X-Lightbox-Largest"]) == ("0", "7")
    overlay = np.asarray(Image.open(BytesIO(post(client, "map", "image/jpeg").data)), np.int16)
    assert overlay[150, 590].sum() > overlay[150, 10].sum() + 100
