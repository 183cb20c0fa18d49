"""Camera software finds objects as with DeepStack."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import requests

from support.fakes import png
from support.finders import LABELS, write_finder
from support.keys import key_line
from support.patience import PATIENCE
from support.stack import Stack, running

BOX = (290, 150, 391, 331)
KEY = "key-of-cameras"

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("deepstack")
    models = folder / "models"
    write_finder(models / "finder" / "1" / "model.xml", "ultralytics")
    (models / "finder" / "code").mkdir()
    own = {"fit": "letterbox", "scaling": "unit", "detections": "ultralytics", "labels": LABELS}
    (models / "finder" / "code" / "lightbox.json").write_text(json.dumps(own))
    (folder / "keys").write_text(key_line("cameras", KEY))
    more = {"LIGHTBOX_API_KEYS": str(folder / "keys"), "LIGHTBOX_OPENAPI": "true"}
    with running(models, folder / "run", LIGHTBOX_DEEPSTACK="true", **more) as found:
        yield found


def frame() -> bytes:
    pixels = np.full((480, 641, 3), (120, 130, 125), np.uint8)
    left, top, right, bottom = BOX
    pixels[top:bottom, left:right] = (250, 5, 5)
    return png(pixels)


@pytest.mark.parametrize("path", ["detection", "custom/finder"])
def test_a_client_that_posts_bytes_and_reads_corners(stack: Stack, path: str) -> None:
    """As Frigate's detector and Home Assistant's integration do; a password in the address is the key."""
    address = f"{stack.url.replace('://', f'://cameras:{KEY}@')}/v1/vision/{path}"
    data = {"api_key": "", "min_confidence": 0.45}
    answer = requests.post(address, files={"image": frame()}, data=data, timeout=PATIENCE)
    assert answer.status_code == 200
    (found,) = answer.json()["predictions"]
    assert (found["label"], round(found["confidence"], 2)) == ("red", 0.9)
    seen = [found[edge] for edge in ("x_min", "y_min", "x_max", "y_max")]
    assert np.abs(np.subtract(seen, BOX)).max() <= 3


def test_a_part_with_a_file_name_and_a_type(stack: Stack) -> None:
    """As Blue Iris and Agent DVR post it."""
    part = {"image": ("snapshot.jpg", frame(), "image/jpeg")}
    address = f"{stack.url.replace('://', f'://cameras:{KEY}@')}/v1/vision/detection"
    body = requests.post(address, files=part, timeout=PATIENCE).json()
    assert (body["success"], [one["label"] for one in body["predictions"]]) == (True, ["red"])


def test_a_request_without_a_key(stack: Stack) -> None:
    answer = requests.post(f"{stack.url}/v1/vision/detection", files={"image": frame()}, timeout=PATIENCE)
    assert answer.status_code == 401


def test_the_document_has_the_routes(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    document = requests.get(f"{stack.url}/openapi.json", headers=headers, timeout=PATIENCE).json()
    assert {"/v1/vision/detection", "/v1/vision/custom/finder"} <= document["paths"].keys()
