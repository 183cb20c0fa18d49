"""Boxes use the pixel coordinates of the posted picture, whatever preprocessing precedes the model."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from PIL import Image, ImageDraw

from corpus.writers import exif, jpeg_segment, with_segments
from support.finders import LABELS, Form, write_finder
from support.patience import PATIENCE
from support.stack import Stack, running

SIZE = (641, 480)
RED, BLUE = (290, 150, 391, 331), (380, 200, 440, 260)  # in the middle, where a crop keeps them
FITS = ("stretch", "crop", "letterbox")
FORMS: tuple[Form, ...] = ("ultralytics", "end_to_end", "detr", "tf")
SERVED = [*((form, "letterbox") for form in FORMS), ("ultralytics", "stretch"), ("ultralytics", "crop")]
"""Each form, and each fit: what reads a form knows no fit."""


def options(fit: str, form: Form) -> dict[str, Any]:
    detections = "ultralytics" if form == "end_to_end" else form
    return {"fit": fit, "scaling": "unit", "detections": detections, "labels": LABELS}


def write_model(folder: Path, form: Form, own: dict[str, Any], height: int = 320, width: int = 320) -> None:
    write_finder(folder / "1" / "model.xml", form, height, width)
    (folder / "code").mkdir()
    (folder / "code" / "lightbox.json").write_text(json.dumps(own))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("finders")
    models = folder / "models"
    for form, fit in SERVED:
        write_model(models / f"{form}_{fit}", form, options(fit, form))
    write_model(models / "wide_letterbox", "ultralytics", options("letterbox", "ultralytics"), 192, 416)
    reduced = options("letterbox", "ultralytics") | {"fast_decode": True}
    write_model(models / "reduced", "ultralytics", reduced, 96, 96)
    write_model(models / "bgr", "ultralytics", options("crop", "ultralytics") | {"channels": "bgr", "crop_pct": 0.9})
    write_model(models / "handled", "ultralytics", options("letterbox", "ultralytics"))
    own = "def postprocess(outputs, request):\n    return list(request.labels)\n"
    (models / "handled" / "code" / "inference.py").write_text(own)
    with running(models, folder / "run", LIGHTBOX_SESSIONS="true", LIGHTBOX_TFS_API="true") as found:
        yield found


def photo(kind: str = "PNG", size: tuple[int, int] = SIZE, times: int = 1) -> bytes:
    image = Image.new("RGB", (size[0] * times, size[1] * times), (120, 130, 125))
    draw = ImageDraw.Draw(image)
    for (left, top, right, bottom), color in ((RED, (250, 5, 5)), (BLUE, (5, 5, 250))):
        draw.rectangle((left * times, top * times, right * times - 1, bottom * times - 1), color)
    file = io.BytesIO()
    image.save(file, kind, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))
    return file.getvalue()


def found(stack: Stack, model: str, body: bytes, **attributes: str) -> list[dict[str, Any]]:
    pairs = {"tfs-model-name": model} | {key.replace("_", "-"): value for key, value in attributes.items()}
    answer = stack.invoke(
        body,
        Content_Type="application/x-image",
        Accept="application/json",
        X_Amzn_SageMaker_Custom_Attributes=",".join(f"{key}={value}" for key, value in pairs.items()),
    )
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["predictions"]
    return list(row)


def check(objects: list[dict[str, Any]], red: tuple[float, ...], blue: tuple[float, ...] | None, within: float) -> None:
    expected = [("red", 0, 0.9, red)] + ([("blue", 1, 0.6, blue)] if blue else [])
    assert [(one["label"], one["class"]) for one in objects] == [(label, number) for label, number, *_ in expected]
    for one, (*_, score, box) in zip(objects, expected, strict=True):
        assert one["score"] == pytest.approx(score, abs=1e-3)
        assert one["box"] == pytest.approx(box, abs=within)


@pytest.mark.parametrize(("form", "fit"), [*SERVED, ("wide", "letterbox")])
def test_boxes_are_in_the_pictures_pixels(stack: Stack, form: str, fit: str) -> None:
    # One pixel of the input covers up to 2.5 of the picture.
    check(found(stack, f"{form}_{fit}", photo()), RED, BLUE, 3)


@pytest.mark.parametrize("form", [form for form, fit in SERVED if fit == "letterbox"])
def test_images_for_a_model_of_one_are_answered_one_by_one(stack: Stack, form: str) -> None:
    model, images = f"{form}_letterbox", [photo(), photo(size=(320, 240)), photo(times=2)]
    answer = requests.post(
        f"{stack.url}/invocations",
        files=[("image", image) for image in images],
        headers={"Accept": "application/json", "X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={model}"},
        timeout=PATIENCE,
    )
    assert answer.json()["predictions"] == [found(stack, model, image) for image in images]


@pytest.mark.parametrize(("fit", "orientation"), [("stretch", 3), ("crop", 8), *((fit, 6) for fit in FITS)])
def test_a_turned_photo_has_boxes_as_a_viewer_shows_it(stack: Stack, fit: str, orientation: int) -> None:
    """The file's pixels are not rotated. The caller sees the picture rotated, and the boxes match that view."""
    body = with_segments(photo("JPEG"), jpeg_segment(0xE1, exif(orientation)))
    width, height = SIZE

    def turned(box: tuple[int, int, int, int]) -> tuple[int, ...]:
        left, top, right, bottom = box
        return {
            3: (width - right, height - bottom, width - left, height - top),
            6: (height - bottom, left, height - top, right),
            8: (top, width - right, bottom, width - left),
        }[orientation]

    check(found(stack, f"ultralytics_{fit}", body), turned(RED), turned(BLUE), 3)


@pytest.mark.parametrize("fit", FITS)
def test_a_part_of_the_picture_has_boxes_in_the_whole(stack: Stack, fit: str) -> None:
    objects = found(stack, f"ultralytics_{fit}", photo(), tfs_crop="250,100,250,300")
    check(objects, RED, BLUE, 2)


def test_a_photo_that_is_decoded_at_reduced_scale(stack: Stack) -> None:
    times = 4
    objects = found(stack, "reduced", photo("JPEG", times=times))
    check(objects, tuple(times * side for side in RED), tuple(times * side for side in BLUE), 30)


def test_channels_the_other_way_round(stack: Stack) -> None:
    """The network reads the first channel as red: with BGR the blue rectangle appears red to it."""
    check(found(stack, "bgr", photo()), BLUE, RED, 3)


def test_the_open_inference_protocol_answers_objects_by_name(stack: Stack) -> None:
    images, model = [photo(), photo(size=(320, 240))], "ultralytics_letterbox"
    texts = [base64.b64encode(image).decode() for image in images]
    body = {
        "inputs": [{"name": "images", "shape": [2], "datatype": "BYTES", "data": texts}],
        "parameters": {"content_type": "base64"},
        "outputs": [{"name": "answer"}],
    }
    answer = requests.post(f"{stack.url}/v2/models/{model}/infer", json=body, timeout=PATIENCE).json()
    (output,) = answer["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2])
    assert list(map(json.loads, output["data"])) == [found(stack, model, image) for image in images]


# Other protocols and media types have the outputs: test_entrances.py.
def test_user_code_gets_the_outputs_and_the_names(stack: Stack) -> None:
    attributes = "tfs-model-name=handled"
    answer = stack.invoke(photo(), Content_Type="image/png", X_Amzn_SageMaker_Custom_Attributes=attributes)
    assert answer.json() == list(LABELS)
    metadata = requests.get(f"{stack.url}/v2/models/handled", timeout=PATIENCE).json()
    assert "detections" not in metadata["parameters"]
    metadata = requests.get(f"{stack.url}/v2/models/ultralytics_letterbox", timeout=PATIENCE).json()
    assert metadata["parameters"]["detections"] == "ultralytics"
    assert [output["shape"] for output in metadata["outputs"]] == [[1, 6, 19]]
